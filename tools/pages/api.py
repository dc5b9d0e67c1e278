"""The pages on Python, made of the docstrings, signatures and fields of what the package offers."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from transduce import errors as error_module
from transduce.settings.base import Settings

RESULTS = ("translation.Translations", "Translation", "Candidate")
COMPARED = ("comparing.Comparison", "comparing.SystemScore")
LOOK = ("look.attention_map", "look.maps.AttentionMap", "look.draw_attention", "look.save")
# What stands together; a public name that is not here is on a page of its own kind, the last.
PAGES = {
    "translating": ("Translating", ("Translator", *RESULTS)),
    "training": ("Training", ("train", "distill")),
    "scoring": ("Scoring", ("score", "Score", "comparing.compare", *COMPARED)),
    "model": ("The model", ("Transformer", "ModelConfig", "TrainConfig", "SearchConfig")),
    "looking": ("Looking inside", ("Inspector", "Inspection", *LOOK)),
    "parsing": ("Parsing", ("Parser", "Tree", "train_parser")),
}
# Of these classes most members are for the package itself.
OF_SETTINGS = ("replace", "to_json", "from_json")
MEMBERS = {
    "Transformer": ("forward_padded",),
    **dict.fromkeys(("ModelConfig", "TrainConfig", "SearchConfig"), OF_SETTINGS),
}
COLUMNS = 88  # of a signature in one line


def pages() -> dict[str, tuple[str, str]]:
    """Return the title and the text of each page by its place."""
    offered = importlib.import_module("transduce")
    placed = {name for _, names in PAGES.values() for name in names}
    placed |= set(vars(error_module))  # on the page of the errors
    groups = dict(PAGES)
    if rest := tuple(name for name in offered.__all__ if name not in placed):
        groups["more"] = ("More", rest)
    found = {}
    for place, (title, names) in groups.items():
        texts = [described(f"transduce.{name}", offered_as(name)) for name in names]
        found[f"api/{place}.md"] = title, "\n\n".join([f"# {title}", *texts])
    found["api/errors.md"] = "Errors", errors()
    return {"api/index.md": ("From Python", _index(groups)), **found}


def offered_as(name: str) -> Any:
    """Return what has a name below the package: Translator, look.save."""
    module, _, own = f"transduce.{name}".rpartition(".")
    return getattr(importlib.import_module(module), own)


def described(name: str, thing: Any, level: int = 2) -> str:
    """Describe a class or a function: how it is called, what it is for, what it has."""
    title = name.removeprefix("transduce.").replace("__", r"\_\_")
    parts = [f"{'#' * level} {title}"]
    if inspect.isclass(thing):
        if _called(thing):
            parts.append(_block(f"class {name}{signature(thing)}"))
        parts.append(markdown(thing.__doc__))
        if issubclass(thing, Settings):
            parts.append("Its fields are on the page of the [settings](../settings.md).")
        elif dataclasses.is_dataclass(thing) and (rows := list(fields(thing))):
            parts.append(_table(("field", "type", "meaning"), rows))
        parts += [
            described(f"{thing.__name__}.{own}", one, level + 1) for own, one in _members(thing)
        ]
    elif isinstance(thing, property):
        assert thing.fget is not None
        parts.append(_block(f"{name} -> {_return(thing.fget)}"))
        parts.append(markdown(thing.__doc__))
    else:
        parts += [_block(name + signature(thing)), markdown(thing.__doc__)]
    return "\n\n".join(parts)


def signature(thing: Any) -> str:
    """Write how something is called, an argument a line where one line is too short."""
    called = inspect.signature(thing)
    own = [one for one in called.parameters.values() if one.name not in ("self", "cls")]
    called = called.replace(parameters=own)
    text = _plain(str(called))
    if len(text) <= COLUMNS - 20:
        return text
    words: list[str] = []
    starred = False
    for one in own:
        if one.kind is one.KEYWORD_ONLY and not starred:
            words.append("*")
        starred = starred or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        words.append(_plain(str(one)))
    end = text.rpartition(" -> ")[2] if " -> " in text else ""
    return "(\n" + "".join(f"    {word},\n" for word in words) + ")" + (f" -> {end}" if end else "")


def fields(thing: type) -> Iterator[tuple[str, str, str]]:
    """Yield the name, type and meaning of each field; the comment behind or above tells it."""
    lines = textwrap.dedent(inspect.getsource(thing)).splitlines()
    (body,) = ast.parse("\n".join(lines)).body
    assert isinstance(body, ast.ClassDef)
    public = {one.name for one in dataclasses.fields(thing) if not one.name.startswith("_")}
    for node in body.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id in public:
            behind = lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :]
            above = lines[node.lineno - 2].strip()
            _, _, comment = (behind if "#" in behind else above).partition("#")
            kind = ast.unparse(node.annotation).strip("'\"")
            yield f"`{node.target.id}`", f"`{kind}`", _cell(comment)


def errors() -> str:
    """Write the tree of errors."""
    overview = inspect.cleandoc(error_module.__doc__ or "")
    first, tree, last = overview.split("\n\n")
    parts = ["# Errors", first, f"```text\n{tree}\n```", last]
    known = [one for _, one in inspect.getmembers(error_module, inspect.isclass)]
    for one in sorted(known, key=lambda one: (len(one.__mro__), one.__name__)):
        parts += [f"## {one.__name__}", f"`transduce.errors.{one.__name__}`", markdown(one.__doc__)]
    return "\n\n".join(parts)


def markdown(doc: str | None) -> str:
    """Return a docstring as Markdown: what begins with >>> is a block of code."""
    found = []
    for paragraph in inspect.cleandoc(doc or "").split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].startswith(">>>"):
            found.append(_block("\n".join(map(_typed, lines))))
        else:
            found.append(_escaped(paragraph))
    return "\n\n".join(found)


def _typed(line: str) -> str:
    """Return a line of a session as it is typed; what is answered becomes a comment."""
    is_input = line.startswith((">>>", "..."))
    return line[3:].removeprefix(" ") if is_input else f"# {line}"


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members that a class defines, or those that `MEMBERS` has for it."""
    chosen = MEMBERS.get(thing.__name__)
    found = {name: inspect.getattr_static(thing, name) for name in chosen or vars(thing)}
    for name, one in found.items():
        plain = one.__func__ if isinstance(one, classmethod | staticmethod) else one
        public = name == "__call__" or not name.startswith("_")
        if public and (inspect.isfunction(plain) or isinstance(one, property)) and plain.__doc__:
            yield name, one if isinstance(one, property) else getattr(thing, name)


def _called(thing: type) -> bool:
    """Tell whether people make these themselves: what has `load` is loaded, and data is given."""
    return not hasattr(thing, "load") and not dataclasses.is_dataclass(thing)


def _index(groups: dict[str, tuple[str, tuple[str, ...]]]) -> str:
    rows = []
    for place, (_, names) in groups.items():
        for name in names:
            first = (offered_as(name).__doc__ or "").strip().splitlines()[0]
            anchor = name.lower().replace(".", "")
            rows.append((f"[`{name}`]({place}.md#{anchor})", _cell(first)))
    rows += [
        ("[Settings](../settings.md)", "Every setting, with its default."),
        ("[Errors](errors.md)", "What can go wrong, and what it is called."),
    ]
    about = markdown(importlib.import_module("transduce").__doc__)
    return "\n\n".join(["# From Python", about, _table(("name", "what it is"), rows)])


def _plain(text: str) -> str:
    """Shorten what Python writes of types: their names alone."""
    text = re.sub(r"\b(?:[a-z_][\w]*\.)+(?=[A-Za-z_])", "", text).replace("'", '"')
    text = re.sub(r"<function <lambda> at 0x[0-9a-f]+>", "…", text)
    return re.sub(r'"([A-Z]\w*)"(?!\])', r"\1", text)


def _return(function: Any) -> str:
    return _plain(str(inspect.signature(function)).rpartition(" -> ")[2])


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _escaped(text: str) -> str:
    text = re.sub(r"</?s>|<[a-z]+>", lambda one: f"`{one[0]}`", text)
    return re.sub(r"(?<![`\w/.])(\w+_\w+)(?![`\w(])", r"`\1`", text)


def _cell(text: str) -> str:
    return _escaped(text.strip()).replace("|", r"\|")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(one) + " |" for one in [head, ("---",) * len(head), *rows]]
    return "\n".join(lines)
