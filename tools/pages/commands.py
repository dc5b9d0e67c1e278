"""A page for each command, generated from the command line."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from typer.main import get_command

from pages.markdown import table
from transduce.cli import app

Named = tuple[tuple[str, ...], Any]  # the words of a command, and the command

WHOLE = """\
Every command has `--help`. Results go to standard output; progress, notes and errors go to standard
error. Exit status: 0 on success, 1 after an error (one sentence), 2 after a usage error, 130 if
interrupted (after saving)."""
MARKUP = re.compile(r"\[(/?)(bold|italic|dim)\]")
HEADING = re.compile(r"\[bold\]Examples?\[/bold\]")
EXAMPLE = re.compile(r"^(?:\w+=\S+ )*(?:transduce|torchrun|cat|echo|curl|pip|make) ")


@cache
def tree() -> Any:
    """Return the command line as a click command; typer bundles its own click since 0.27."""
    return get_command(app)


def walk(command: Any = None, before: tuple[str, ...] = ()) -> Iterator[Named]:
    """Yield every command and group with its words, such as ("paper", "table1")."""
    command = tree() if command is None else command
    for name, inner in _subcommands(command):
        yield (*before, name), inner
        yield from walk(inner, (*before, name))


def pages() -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the words and the text of each page, by path in the site."""
    texts: dict[str, tuple[tuple[str, ...], str]] = {"commands/index.md": ((), _index())}
    for words, command in walk():
        texts[f"commands/{'-'.join(words)}.md"] = words, page(words, command)
    return texts


def page(words: tuple[str, ...], command: Any) -> str:
    """Write the page of a command."""
    title = " ".join(("transduce", *words))
    parts = [f"# {title}", prose(command.help)]
    if subcommands := _subcommands(command):
        rows = [_row((*words, name), inner) for name, inner in subcommands]
        return "\n\n".join([*parts, table(("command", "purpose"), rows)]) + "\n"
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param for param in command.params if param.param_type_name == "option" and not param.hidden
    ]
    parts.append(f"```text\n{usage(title, arguments, options)}\n```")
    if arguments:
        rows = [(f"`{_metavar(argument)}`", _about(argument)) for argument in arguments]
        parts += ["## Arguments", table(("argument", "meaning"), rows)]
    for panel in dict.fromkeys(_panel(option) for option in options):
        rows = [(_names(option), _about(option)) for option in options if _panel(option) == panel]
        parts += [f"## {panel or 'Options'}", table(("option", "meaning"), rows)]
    return "\n\n".join([*parts, *_examples(command.epilog)]) + "\n"


def usage(title: str, arguments: list[Any], options: list[Any]) -> str:
    """Write the usage line: required words first, then optional ones."""
    words = [title]
    for argument in arguments:
        metavar = _metavar(argument) + ("…" if argument.nargs == -1 else "")
        words.append(metavar if argument.required else f"[{metavar}]")
    words += [f"{option.opts[0]} {_values(option)}" for option in options if option.required]
    if not all(option.required for option in options):
        words.append("[options]")
    return " ".join(words)


def prose(text: str | None) -> str:
    """Convert a help text from terminal markup to Markdown."""
    text = inspect.cleandoc(text or "")
    # Lines that begin with bold text become list items.
    text = re.sub(r"^(?=\[bold\])", "- ", text, flags=re.MULTILINE)
    return MARKUP.sub(
        lambda match: {"bold": "**", "italic": "*", "dim": ""}[match[2]], escaped(text)
    )


def escaped(text: str) -> str:
    """Escape angle brackets and stars; write options and names with underscores as code."""
    text = re.sub(r"`?(--[a-z][\w-]*)`?", r"`\1`", text)
    text = re.sub(r"(?<![`\w])(\w+_\w+)(?![`\w])", r"`\1`", text)
    return text.replace("<", "&lt;").replace("*", r"\*")


def brief(command: Any) -> str:
    """Return the first sentence of a command's help."""
    return prose((command.help or "").split("\n\n")[0]).replace("\n", " ")


def _subcommands(command: Any) -> list[tuple[str, Any]]:
    """Return the commands of a group, except hidden ones."""
    commands: dict[str, Any] = getattr(command, "commands", {})
    return [(name, inner) for name, inner in commands.items() if not inner.hidden]


def _panel(option: Any) -> str | None:
    return getattr(option, "rich_help_panel", None)


def _row(words: tuple[str, ...], command: Any) -> tuple[str, str]:
    return f"[`transduce {' '.join(words)}`]({'-'.join(words)}.md)", brief(command)


def _index() -> str:
    rows = [_row(words, command) for words, command in walk()]
    options = [param for param in tree().params if param.param_type_name == "option"]
    top = [(_names(option), _about(option)) for option in options]
    return "\n\n".join(
        [
            "# Commands",
            WHOLE,
            table(("command", "purpose"), rows),
            "## Options before the command",
            table(("option", "meaning"), top),
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
    """Return the examples as a block to copy, and other paragraphs as text."""
    paragraphs = [" ".join(text.split()) for text in (epilog or "").split("\n\n") if text.strip()]
    paragraphs = [text for text in paragraphs if not HEADING.fullmatch(text)]
    if not paragraphs:
        return []
    commands = [f"$ {text}" for text in paragraphs if EXAMPLE.match(text)]
    notes = [prose(text) for text in paragraphs if not EXAMPLE.match(text)]
    return ["## Examples", "\n".join(["```console", *commands, "```"]), *notes]
