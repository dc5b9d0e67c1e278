"""How commands are declared: parameters of a function, and groups of options.

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
last two in a panel "Search". The annotated types of cli/options.py can be used in both places, such
as `device: Device = "auto"`.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any, TypeVar, dataclass_transform

import typer
from typer.models import ParameterInfo

INFO = "typer"  # the key of a field's metadata
Group = TypeVar("Group")


def option(help: str, *names: str, default: Any = None, **declaration: Any) -> Any:  # noqa: A002
    """Declare a parameter or a field as an option; `...` as its default makes it required.

    Names and further arguments are those of `typer.Option`.
    """
    return _field(typer.Option(*names, help=help, **declaration), default)


def argument(help: str, *, default: Any = ..., **declaration: Any) -> Any:  # noqa: A002
    """Declare a parameter as an argument; further arguments are those of `typer.Argument`."""
    return _field(typer.Argument(help=help, **declaration), default)


def flag(help: str, name: str, **declaration: Any) -> Any:  # noqa: A002
    """Declare an option without a value, which is off unless it is given."""
    return option(help, name, default=False, **declaration)


def _field(info: ParameterInfo, default: Any) -> Any:
    metadata = {INFO: info}
    if default is ...:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, flag))
def option_group(panel: str | None = None) -> Callable[[type[Group]], type[Group]]:
    """Make a class a dataclass of options; --help shows them in a panel of this name."""

    def decorate(group: type[Group]) -> type[Group]:
        for value in vars(group).values():
            if isinstance(value, dataclasses.Field):
                value.metadata[INFO].rich_help_panel = panel
        return dataclasses.dataclass(frozen=True, kw_only=True)(group)

    return decorate


def add_commands(app: typer.Typer, *modules: ModuleType) -> None:
    """Add the command of each module: the function that has its name."""
    for module in modules:
        add_command(app, getattr(module, module.__name__.rpartition(".")[2]), module.EXAMPLES)


def add_command(app: typer.Typer, function: Callable[..., None], examples: str) -> None:
    """Add a command to an app, with examples."""
    name = function.__name__.rstrip("_")
    about = unwrap(function.__doc__ or "")
    app.command(name, help=about, epilog=epilog(examples))(expand_groups(function))


def epilog(examples: str) -> str:
    """Return examples, of which each has a line, as paragraphs below a heading."""
    lines = examples.strip().splitlines()
    heading = "Examples" if len(lines) > 1 else "Example"
    return "\n\n".join([f"[bold]{heading}[/bold]", *lines])


def unwrap(text: str) -> str:
    """Join the lines of each paragraph, so that the terminal wraps them."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def expand_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with the options of each group as parameters of their own, for typer."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if dataclasses.is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += [
                _parameter(field.name, field.type, field, parameter.KEYWORD_ONLY)
                for field in dataclasses.fields(parameter.annotation)
            ]
        elif isinstance(field := parameter.default, dataclasses.Field):
            parameters.append(
                _parameter(parameter.name, parameter.annotation, field, parameter.kind)
            )
        else:
            parameters.append(parameter)

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            values[name] = group(**{field: values.pop(field) for field in fields})
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameter(
    name: str, annotation: Any, field: dataclasses.Field[Any], kind: Any
) -> inspect.Parameter:
    if INFO in field.metadata:
        annotation = Annotated[annotation, field.metadata[INFO]]
    required = field.default is dataclasses.MISSING
    default = inspect.Parameter.empty if required else field.default
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
