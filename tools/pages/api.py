"""The Python API reference, generated from docstrings, signatures and fields."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from pages.markdown import table
from transduce import errors as error_module
from transduce.settings.base import Settings

# The title of each page and its names in `transduce`. Other public names are on the page "More".
PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "translating": (
        "Translating",
        ("Translator", "Translation", "Candidate", "translation.translation.Translations"),
    ),
    "training": ("Training", ("train", "distill")),
    "scoring": (
        "Scoring",
        (
            *("score", "Score", "evaluation.significance.compare"),
            *("evaluation.significance.Comparison", "evaluation.significance.SystemScore"),
        ),
    ),
    "model": ("The model", ("Transformer", "ModelConfig", "TrainConfig", "SearchConfig")),
    "looking": (
        "Looking inside",
        (
            *("Inspector", "Inspection", "inspection.attention_map", "inspection.draw_attention"),
            *("inspection.notebook_map.AttentionMap", "inspection.save"),
        ),
    ),
    "parsing": ("Parsing", ("Parser", "Tree", "train_parser")),
}
NAMES = [name for _, names in PAGES.values() for name in names]
# Most members of these classes are internal: only the named ones are described.
OF_SETTINGS = ("replace", "to_json", "from_json")
MEMBERS = {
    "Transformer": ("forward_padded",),
    **dict.fromkeys(("ModelConfig", "TrainConfig", "SearchConfig"), OF_SETTINGS),
}
COLUMNS = 88  # maximum width of a signature on one line


def pages() -> dict[str, tuple[str, str]]:
    """Return the title and the text of each page, by its path in the site."""
    package = importlib.import_module("transduce")
    listed = {*NAMES, *vars(error_module)}  # errors have their own page
    groups = dict(PAGES)
    if unlisted := tuple(name for name in package.__all__ if name not in listed):
        groups["more"] = ("More", unlisted)
    texts = {}
    for page, (title, names) in groups.items():
        described = [describe(f"transduce.{name}", resolve(name)) for name in names]
        texts[f"api/{page}.md"] = title, "\n\n".join([f"# {title}", *described])
    texts["api/errors.md"] = "Errors", errors()
    return {"api/index.md": ("From Python", _index(groups)), **texts}


def resolve(name: str) -> Any:
    """Return the object with a name relative to the package: Translator, inspection.save."""
    module, _, attribute = f"transduce.{name}".rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def describe(name: str, thing: Any, level: int = 2) -> str:
    """Describe a class or a function: its signature, docstring, fields and members."""
    title = name.removeprefix("transduce.").replace("__", r"\_\_")
    parts = [f"{'#' * level} {title}"]
    if inspect.isclass(thing):
        if _called(thing):
            parts.append(_block(f"class {name}{signature(thing)}"))
        parts.append(markdown(thing.__doc__))
        if issubclass(thing, Settings):
            parts.append("Its fields are on the page of the [settings](../settings.md).")
        elif dataclasses.is_dataclass(thing) and (rows := list(fields(thing))):
            parts.append(table(("field", "type", "meaning"), rows))
        parts += [
            describe(f"{thing.__name__}.{member}", value, level + 1)
            for member, value in members(thing)
        ]
    elif isinstance(thing, property):
        assert thing.fget is not None
        parts.append(_block(f"{name} -> {_return(thing.fget)}"))
        parts.append(markdown(thing.__doc__))
    else:
        parts += [_block(name + signature(thing)), markdown(thing.__doc__)]
    return "\n\n".join(parts)


def signature(thing: Any) -> str:
    """Write a signature, with one argument per line if it is long."""
    full = inspect.signature(thing)
    shown = [part for part in full.parameters.values() if part.name not in ("self", "cls")]
    text = _plain(str(full.replace(parameters=shown)))
    if len(text) <= COLUMNS - 20:
        return text
    words: list[str] = []
    starred = False
    for parameter in shown:
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
        starred = starred or kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        words.append(_plain(str(parameter)))
    end = text.rpartition(" -> ")[2] if " -> " in text else ""
    return "(\n" + "".join(f"    {word},\n" for word in words) + ")" + (f" -> {end}" if end else "")


def fields(thing: type) -> Iterator[tuple[str, str, str]]:
    """Yield the name, type and meaning (from its comment) of each field."""
    lines = textwrap.dedent(inspect.getsource(thing)).splitlines()
    (body,) = ast.parse("\n".join(lines)).body
    assert isinstance(body, ast.ClassDef)
    names = [field.name for field in dataclasses.fields(thing)]
    public = {name for name in names if not name.startswith("_")}
    for node in body.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id in public:
            after = lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :]
            above = lines[node.lineno - 2].strip()
            _, _, comment = (after if "#" in after else above).partition("#")
            kind = ast.unparse(node.annotation).strip("'\"")
            yield f"`{node.target.id}`", f"`{kind}`", _cell(comment)


def errors() -> str:
    """Write the tree of errors."""
    overview = inspect.cleandoc(error_module.__doc__ or "")
    first, tree, last = overview.split("\n\n")
    parts = ["# Errors", first, f"```text\n{tree}\n```", last]
    classes = [
        value
        for _, value in inspect.getmembers(error_module, inspect.isclass)
        if issubclass(value, error_module.TransduceError)
    ]
    for error in sorted(classes, key=lambda error: (len(error.__mro__), error.__name__)):
        parts += [f"## {error.__name__}", _block(f"transduce.{error.__name__}")]
        parts.append(markdown(error.__doc__))
    return "\n\n".join(parts)


def markdown(doc: str | None) -> str:
    """Return a docstring as Markdown, with examples (>>>) as blocks of code."""
    parts = []
    for paragraph in inspect.cleandoc(doc or "").split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].startswith(">>>"):
            parts.append(_block("\n".join(map(_typed, lines))))
        else:
            parts.append(_escaped(paragraph))
    return "\n\n".join(parts)


def _typed(line: str) -> str:
    """Return a line of an example without its prompt; output becomes a comment."""
    is_input = line.startswith((">>>", "..."))
    return line[3:].removeprefix(" ") if is_input else f"# {line}"


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members of a class, or those that MEMBERS lists."""
    chosen = MEMBERS.get(thing.__name__)
    values = {name: inspect.getattr_static(thing, name) for name in chosen or vars(thing)}
    for name, value in values.items():
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        public = name == "__call__" or not name.startswith("_")
        if public and (inspect.isfunction(plain) or isinstance(value, property)) and plain.__doc__:
            yield name, value if isinstance(value, property) else getattr(thing, name)


def _called(thing: type) -> bool:
    """Return whether users call the class: it has no `load` and is not a dataclass."""
    return not hasattr(thing, "load") and not dataclasses.is_dataclass(thing)


def _index(groups: dict[str, tuple[str, tuple[str, ...]]]) -> str:
    rows = []
    for page, (_, names) in groups.items():
        for name in names:
            first = (resolve(name).__doc__ or "").strip().splitlines()[0]
            anchor = name.lower().replace(".", "")
            rows.append((f"[`{name}`]({page}.md#{anchor})", _cell(first)))
    rows += [
        ("[Settings](../settings.md)", "Every setting, with its default."),
        ("[Errors](errors.md)", "The classes of errors to catch."),
    ]
    about = markdown(importlib.import_module("transduce").__doc__)
    return "\n\n".join(["# From Python", about, table(("name", "what it is"), rows)])


def _plain(text: str) -> str:
    """Shorten type annotations to the names of the types."""
    text = re.sub(r"\b(?:[a-z_][\w]*\.)+(?=[A-Za-z_])", "", text).replace("'", '"')
    text = re.sub(r"<function <lambda> at 0x[0-9a-f]+>", "…", text)
    return re.sub(r'"([A-Z]\w*)"(?!\])', r"\1", text)


def _return(function: Any) -> str:
    return _plain(str(inspect.signature(function)).rpartition(" -> ")[2])


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _escaped(text: str) -> str:
    text = re.sub(r"</?s>|<[a-z]+>", lambda match: f"`{match[0]}`", text)
    return re.sub(r"(?<![`\w/.])(\w+_\w+)(?![`\w(])", r"`\1`", text)


def _cell(text: str) -> str:
    return _escaped(text.strip()).replace("|", r"\|")
