"""A page for each command, made of the command line itself."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from typer.main import get_command

from transduce.cli import app

Named = tuple[tuple[str, ...], Any]  # the words of a command, and the command

WHOLE = """\
Every command answers `--help`. Results go to standard output, everything for people to standard
error. Exit status: 0; 1 after an error, which is one sentence; 2 where a command is mistyped; 130
where it was interrupted, after saving."""
MARKUP = re.compile(r"\[(/?)(bold|italic|dim)\]")
EXAMPLE = re.compile(r"^(?:\w+=\S+ )*(?:transduce|torchrun|cat|echo|curl|pip|make) ")


@cache
def tree() -> Any:
    """Return the command line as click sees it; typer has brought its own click since 0.27."""
    return get_command(app)


def walk(command: Any = None, before: tuple[str, ...] = ()) -> Iterator[Named]:
    """Yield every command and group with its words, ("paper", "table1"), below the whole."""
    command = tree() if command is None else command
    for name, one in _inner(command):
        yield (*before, name), one
        yield from walk(one, (*before, name))


def pages() -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the words and the text of each page by its place."""
    found: dict[str, tuple[tuple[str, ...], str]] = {"commands/index.md": ((), _index())}
    for words, command in walk():
        found[f"commands/{'-'.join(words)}.md"] = words, page(words, command)
    return found


def page(words: tuple[str, ...], command: Any) -> str:
    """Write the page of a command."""
    title = " ".join(("transduce", *words))
    parts = [f"# {title}", prose(command.help)]
    if inner := _inner(command):
        rows = [_row((*words, name), one) for name, one in inner]
        return "\n\n".join([*parts, _table(("command", "what it does"), rows)]) + "\n"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    parts.append(f"```text\n{usage(title, arguments, options)}\n```")
    if arguments:
        rows = [(f"`{_metavar(one)}`", _about(one)) for one in arguments]
        parts += ["## Arguments", _table(("argument", "meaning"), rows)]
    for panel in dict.fromkeys(getattr(one, "rich_help_panel", None) for one in options):
        own = [one for one in options if getattr(one, "rich_help_panel", None) == panel]
        rows = [(_names(one), _about(one)) for one in own]
        parts += [f"## {panel or 'Options'}", _table(("option", "meaning"), rows)]
    return "\n\n".join([*parts, *_examples(command.epilog)]) + "\n"


def usage(title: str, arguments: list[Any], options: list[Any]) -> str:
    """Write how a command is called: what must be said, then what may be."""
    words = [title]
    for one in arguments:
        many = "…" if one.nargs == -1 else ""
        words.append(_metavar(one) + many if one.required else f"[{_metavar(one)}{many}]")
    words += [f"{one.opts[0]} {_values(one)}" for one in options if one.required]
    return " ".join([*words, "[options]"] if any(not one.required for one in options) else words)


def prose(text: str | None) -> str:
    """Return a text of the help as Markdown: the markup of terminals is not that of pages."""
    text = inspect.cleandoc(text or "")
    # A terminal shows lines that begin bold as a list.
    text = re.sub(r"^(?=\[bold\])", "- ", text, flags=re.MULTILINE)
    return MARKUP.sub(lambda one: {"bold": "**", "italic": "*", "dim": ""}[one[2]], escaped(text))


def escaped(text: str) -> str:
    """Keep what pages would read as markup: angle brackets, stars, and underscores in names."""
    text = re.sub(r"`?(--[a-z][\w-]*)`?", r"`\1`", text)
    text = re.sub(r"(?<![`\w])(\w+_\w+)(?![`\w])", r"`\1`", text)
    return text.replace("<", "&lt;").replace("*", r"\*")


def brief(command: Any) -> str:
    """Return the first sentence of a command's help."""
    return prose((command.help or "").split("\n\n")[0]).replace("\n", " ")


def _inner(command: Any) -> list[tuple[str, Any]]:
    """Return the commands of a group, those that are shown."""
    return [one for one in getattr(command, "commands", {}).items() if not one[1].hidden]


def _row(words: tuple[str, ...], command: Any) -> tuple[str, str]:
    return f"[`transduce {' '.join(words)}`]({'-'.join(words)}.md)", brief(command)


def _index() -> str:
    rows = [_row(*one) for one in walk()]
    top = [(_names(one), _about(one)) for one in tree().params if one.param_type_name == "option"]
    return "\n\n".join(
        [
            "# Commands",
            WHOLE,
            _table(("command", "what it does"), rows),
            "## Before any command",
            _table(("option", "meaning"), top),
        ]
    )


def _names(option: Any) -> str:
    flag = getattr(option, "is_flag", False)
    names = "<br>".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names if flag else f"{names} `{_values(option)}`".replace("|", r"\|")


def _values(option: Any) -> str:
    return " ".join([_metavar(option)] * max(1, option.nargs))


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.strip("_").upper())


def _about(parameter: Any) -> str:
    parts = [prose(getattr(parameter, "help", None)).replace("\n", " ").replace("|", r"\|")]
    if parameter.multiple or parameter.nargs == -1:
        parts.append("May be given several times.")
    default = parameter.default
    if parameter.required and parameter.param_type_name == "option":
        parts.append("**Required.**")
    elif not getattr(parameter, "is_flag", False) and default not in (None, (), []):
        parts.append(f"Default: `{default}`.")
    elif parameter.secondary_opts:
        parts.append(f"Default: `{(parameter.opts if default else parameter.secondary_opts)[0]}`.")
    return " ".join(part for part in parts if part)


def _examples(epilog: str | None) -> list[str]:
    """Return the examples as a block to copy, and what is said beside them as text."""
    paragraphs = [" ".join(one.split()) for one in (epilog or "").split("\n\n") if one.strip()]
    paragraphs = [one for one in paragraphs if not re.fullmatch(r"\[bold\]Examples?\[/bold\]", one)]
    if not paragraphs:
        return []
    commands = [f"$ {one}" for one in paragraphs if EXAMPLE.match(one)]
    said = [prose(one) for one in paragraphs if not EXAMPLE.match(one)]
    return ["## Examples", "\n".join(["```console", *commands, "```"]), *said]


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {left} | {right} |" for left, right in [head, ("---", "---"), *rows]]
    return "\n".join(lines)
