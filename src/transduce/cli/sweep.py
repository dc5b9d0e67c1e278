"""`transduce sweep`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import Device, command
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.experiments.sweep import Sweep
    from transduce.recipes.grid import Grid
    from transduce.recipes.recipe import Recipe

EXAMPLES = """
transduce sweep pocket --set P_drop=0.1,0.3 --seeds 3
transduce sweep mine.toml --set P_drop=0.1,0.2,0.3 --set d_ff=512,1024 --seeds 2 --jobs 2
transduce sweep mine.toml --set P_drop=0.1,0.3 --seeds 3 --dry-run
transduce sweep mine.toml --set P_drop=0.1,0.3 --seeds 3 --slurm > sweep.sh
Run the same command again to resume.
"""

MOST_RUNS = 1_000  # without --yes


@option_group()
class SweepOptions:
    """What to train, and where."""

    set_: list[str] | None = option(
        "Values of a setting, with commas between them; one value holds for all runs. Repeatable. "
        "Default: the recipe's [sweep].",
        "--set",
        metavar="NAME=VALUE,VALUE",
    )
    seeds: int | None = option("Seeds of each combination. Default: the recipe's, or 1.", min=1)
    out: Path | None = option("Folder of the sweep. Default: sweeps/RECIPE.", "--out", "-o")
    data: Path | None = option("Folder of the recipe's data. Default: data/NAME.", metavar="DIR")
    steps: int | None = option("Number of updates of each run.", min=1)
    time: str | None = option("Time to train each run: 90s, 30m, 1h30m.")
    jobs: int = option("Runs to train side by side.", default=1, min=1)
    device: Device = "auto"


@option_group("Instead of training")
class OtherOptions:
    """What to do instead of training all runs."""

    dry_run: bool = flag("List the runs with their numbers.", "--dry-run")
    slurm: bool = flag("Write a job array for Slurm; each task trains one run.", "--slurm")
    only: int | None = option("Train only run N of --dry-run.", metavar="N")
    yes: bool = flag("Confirm a sweep of more than 1,000 runs.", "--yes")


def sweep(
    recipe: str = argument("A recipe: a name that `transduce recipes` lists, or a file."),
    *,
    options: SweepOptions,
    other: OtherOptions,
) -> None:
    """Train a recipe with all combinations of some settings and several seeds, and compare.

    The result is a table with means and 95% intervals over seeds of validation loss and BLEU, and
    of the test scores. Finished runs are kept; the same command continues.
    """
    from transduce.recipes.recipe import find

    found = find(recipe)
    grid, fixed = _grid(found, options)
    if grid.size == 1:
        raise BadInput("there is one run: give several values, --set P_drop=0.1,0.3, or --seeds 3")
    if grid.size > MOST_RUNS and not (other.yes or other.dry_run):
        raise BadInput(f"there are {grid.size:,} runs: add --yes to train more than {MOST_RUNS:,}")
    if options.time and options.jobs > 1:
        raise BadInput(
            "--jobs with --time: runs side by side would each get less of the machine; use --steps"
        )
    from transduce.experiments import sweep as sweeping

    planned = sweeping.Sweep(
        recipe=found,
        grid=grid,
        out=options.out or Path("sweeps") / Path(recipe).stem,
        settings=fixed,
        data=options.data,
        device=options.device,
    )
    if other.dry_run:
        for line in sweeping.describe(planned, planned.rows()):
            typer.echo(line)
    elif other.slurm:
        again = command(*(word for word in sys.argv[1:] if word != "--slurm"))
        typer.echo(sweeping.slurm_script(planned, len(planned.rows()), again), nl=False)
    else:
        _train(planned, options.jobs, other.only)


def _grid(recipe: "Recipe", options: SweepOptions) -> "tuple[Grid, dict[str, str]]":
    """Return the grid, and the settings that are the same in all runs."""
    from transduce.recipes.grid import Grid, parse_options
    from transduce.recipes.recipe import settings_of
    from transduce.system.formatting import parse_duration

    given = parse_options(options.set_ or [], options.seeds or recipe.sweep.seeds)
    seconds = None if options.time is None else parse_duration(options.time, "--time")
    fixed = settings_of(steps=options.steps, seconds=seconds)
    if twice := fixed.keys() & given.values.keys():
        raise BadInput(f"{min(twice)} is given as an option and with --set: give one")
    single = {name: values[0] for name, values in given.values.items() if len(values) == 1}
    several = {name: values for name, values in given.values.items() if len(values) > 1}
    own = {name: values for name, values in recipe.sweep.values.items() if name not in single}
    return Grid(values={**own, **several}, seeds=given.seeds), fixed | single


def _train(planned: "Sweep", jobs: int, only: int | None) -> None:
    """Train and print the table."""
    from transduce.experiments.sweep import train_sweep
    from transduce.system.progress import console_progress

    progress = console_progress()
    table = train_sweep(planned, progress, jobs=jobs, only=only)
    if table is None:
        return
    if only is None:
        typer.echo(table.read_text(encoding="utf-8"), nl=False)
    progress.say(f"the table: {table}, table.csv, table.json")
