"""Declare commands as functions; their parameters are arguments, options and groups of options.

    @option_group("Search")
    class Search:
        beam: int | None = option("Beam size; 1 is greedy. Default: 4.")
        sample: bool = flag("Sample at random instead of searching.", "--sample")

    def translate(
        run: Path = argument("Run folder of a trained model."),
        *,
        align: bool = flag("Add the word alignment.", "--align"),
        search: Search,
    ) -> None: ...

    add_command(app, translate, EXAMPLES)

The command has the argument RUN and the options --align, --beam and --sample; its help shows the
last two in a panel "Search". Functions and groups can also use the annotated types in
cli/options.py, for example `device: Device = "auto"`.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeVar, dataclass_transform

import typer
from typer.models import OptionInfo, ParameterInfo

from transduce.cli import completion
from transduce.settings.base import MAX_INT
from transduce.system.formatting import pluralize

INFO = "typer"  # key in a field's metadata
Group = TypeVar("Group")


def option(help: str, *names: str, default: Any = None, **declaration: Any) -> Any:  # noqa: A002
    """Declare a parameter or a field as an option; the default `...` makes it required.

    Names and further arguments are as for `typer.Option`.
    """
    return _field(typer.Option(*names, help=help, **declaration), default)


def argument(help: str, *, default: Any = ..., **declaration: Any) -> Any:  # noqa: A002
    """Declare a parameter or a field as an argument; keywords are as for `typer.Argument`."""
    return _field(typer.Argument(help=help, **declaration), default)


def flag(help: str, name: str, **declaration: Any) -> Any:  # noqa: A002
    """Declare a boolean option without a value, which is off by default."""
    return option(help, name, default=False, **declaration)


def _field(info: ParameterInfo, default: Any) -> Any:
    metadata = {INFO: info}
    if default is ...:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option, argument, flag)
)
def option_group(panel: str | None = None) -> Callable[[type[Group]], type[Group]]:
    """Make a class a dataclass of arguments and options; --help shows the options in a panel."""

    def decorate(group: type[Group]) -> type[Group]:
        for value in vars(group).values():
            info = value.metadata[INFO] if isinstance(value, dataclasses.Field) else None
            if isinstance(info, OptionInfo):
                info.rich_help_panel = panel
        return dataclasses.dataclass(frozen=True, kw_only=True)(group)

    return decorate


def add_commands(app: typer.Typer, *modules: ModuleType) -> None:
    """Add each module's command: the function with the module's name."""
    for module in modules:
        add_command(app, getattr(module, module.__name__.rpartition(".")[2]), module.EXAMPLES)


def add_command(app: typer.Typer, function: Callable[..., None], examples: str) -> None:
    """Add a command to an app, with examples."""
    name = function.__name__.rstrip("_")
    about = unwrap(function.__doc__ or "")
    app.command(name, help=about, epilog=epilog(examples))(expand_groups(function))


def epilog(examples: str) -> str:
    """Return examples, given one per line, as paragraphs below a heading."""
    lines = examples.strip().splitlines()
    heading = "Examples" if len(lines) > 1 else "Example"
    return "\n\n".join([f"[bold]{heading}[/bold]", *lines])


def unwrap(text: str) -> str:
    """Join the lines of each paragraph, so that the terminal wraps them."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def expand_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with each group replaced by one parameter per field, as typer expects."""
    declared = inspect.signature(function).parameters.values()
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in declared
        if dataclasses.is_dataclass(parameter.annotation)
    }
    expanded = [each for parameter in declared for each in _expand(parameter)]
    for parameter in expanded:
        _check_and_complete(parameter)

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            values[name] = group(**{field: values.pop(field) for field in fields})
        function(**values)

    command.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in expanded}
    return command


def _expand(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield a parameter in the form that typer expects; for a group, one parameter per field."""
    if dataclasses.is_dataclass(parameter.annotation):
        for field in dataclasses.fields(parameter.annotation):
            yield _parameter(field.name, field.type, field, parameter.KEYWORD_ONLY)
    elif isinstance(parameter.default, dataclasses.Field):
        yield _parameter(parameter.name, parameter.annotation, parameter.default, parameter.kind)
    else:
        yield parameter


def _parameter(
    name: str, annotation: Any, field: dataclasses.Field[Any], kind: Any
) -> inspect.Parameter:
    if INFO in field.metadata:
        annotation = Annotated[annotation, field.metadata[INFO]]
    required = field.default is dataclasses.MISSING
    default = inspect.Parameter.empty if required else field.default
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _check_and_complete(parameter: inspect.Parameter) -> None:
    """Add value checks to an option, and shell completion chosen by the parameter's name."""
    for info in getattr(parameter.annotation, "__metadata__", ()):
        info.autocompletion = info.autocompletion or completion.VALUES.get(parameter.name)
        if isinstance(info, OptionInfo):
            info.callback = check_value


def check_value(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Refuse numbers beyond int64, non-finite numbers, and option names in place of values.

    In `--valid dev.en --out run` the parser takes --out as the second file of --valid, and would
    then report that --out is missing.
    """
    names = {name for parameter in context.command.params for name in parameter.opts}
    option_names = {name for name in names if name.startswith("-")}
    several = value if isinstance(value, list | tuple) else (value,)
    values = [part for item in several for part in (item if isinstance(item, tuple) else (item,))]
    for index, part in enumerate(values):
        if isinstance(part, int) and abs(part) > MAX_INT:
            raise typer.BadParameter(f"expected at most {MAX_INT:,}")
        if isinstance(part, float) and not math.isfinite(part):
            raise typer.BadParameter(f"{part} is not a finite number")
        if isinstance(part, str | Path) and str(part) in option_names:
            previous = values[index - 1] if index else "it"
            count = pluralize(param.nargs, "value")
            raise typer.BadParameter(f"it takes {count}, but {previous} is followed by {part}")
    return value
