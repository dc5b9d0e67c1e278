"""Groups of options, and commands that are declared with them."""

import inspect
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from transduce.cli.declaring import (
    add_command,
    argument,
    epilog,
    expand_groups,
    flag,
    option,
    option_group,
)


@option_group("Search")
class Search:
    """Options in a panel."""

    beam: int = option("Beam size.", default=4, min=1)
    sample: bool = flag("Sample.", "--sample")


@option_group()
class Output:
    """A required option."""

    out: Path = option("Where to write.", "--out", "-o", default=...)


def translate(
    run: str = argument("Run folder."),
    *,
    fast: bool = flag("Be fast.", "--fast"),
    search: Search,
    output: Output,
) -> None:
    """Print what the command was given."""
    typer.echo(f"{run} {fast} {search} {output}")


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    add_command(app, translate, "transduce translate RUN -o OUT")
    return app


def test_a_command_receives_a_group_as_one_object(app: typer.Typer) -> None:
    given = CliRunner().invoke(app, ["run", "--beam", "8", "--sample", "-o", "file"])
    assert given.output == (f"run False {Search(beam=8, sample=True)} {Output(out=Path('file'))}\n")
    defaults = CliRunner().invoke(app, ["run", "--fast", "--out", "file"])
    assert (
        defaults.output == f"run True {Search(beam=4, sample=False)} {Output(out=Path('file'))}\n"
    )


@pytest.mark.parametrize("words", [["run"], ["-o", "file"], ["run", "-o", "file", "--beam", "0"]])
def test_missing_and_wrong_values_are_refused(app: typer.Typer, words: list[str]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2


def test_the_options_of_a_group_are_in_its_panel() -> None:
    parameters = inspect.signature(expand_groups(translate)).parameters
    assert list(parameters) == ["run", "fast", "beam", "sample", "out"]
    panels = {
        name: parameter.annotation.__metadata__[0].rich_help_panel
        for name, parameter in parameters.items()
    }
    assert panels["beam"] == panels["sample"] == "Search"
    assert panels["fast"] is panels["out"] is None


def test_each_example_is_a_paragraph() -> None:
    assert epilog("\na\nb\n") == "[bold]Examples[/bold]\n\na\n\nb"
    assert epilog("\na\n") == "[bold]Example[/bold]\n\na"
