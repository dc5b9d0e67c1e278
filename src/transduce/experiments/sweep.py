"""All combinations of settings, with several seeds each, as runs of one recipe.

runs/NAME/            the run folders
results/NAME.json     what was measured of a finished run
table.md .csv .json   means and intervals of each combination
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transduce.config import apply_settings
from transduce.corpus.inputs import InputFile
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun, BadSetting, Diverged
from transduce.experiments.experiment_folder import require_new
from transduce.experiments.rows import Row
from transduce.experiments.side_by_side import run_side_by_side
from transduce.experiments.sweep_table import Measured, write_tables
from transduce.presets import find_preset
from transduce.recipes.data import check_data, fetch_data
from transduce.recipes.grid import Grid
from transduce.recipes.recipe import Overrides, Recipe
from transduce.runs.history import read_history
from transduce.system.files import checksum, read_checksummed, write_checksummed
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.workflows.evaluation import Evaluation
from transduce.workflows.following import follow, merge_settings

FORMAT = 1
RUNS, RESULTS = "runs", "results"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep over a recipe; `settings` are the same in all runs."""

    recipe: Recipe
    grid: Grid
    out: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None
    device: str = "auto"

    def rows(self) -> list[Row]:
        """Return the runs in the order of their numbers; refuse invalid combinations."""
        fixed = merge_settings(self.recipe.settings, self.settings)
        first = int(fixed.get("seed", "1"))
        name = self.recipe.preset or "base"
        preset = find_preset(name)
        rows = []
        for combination in self.grid.combinations():
            apply_settings({**fixed, **combination}, preset.model, preset.train)
            for seed in range(first, first + self.grid.seeds):
                settings = {**self.settings, **combination, "seed": str(seed)}
                parts = {**combination, "seed": str(seed)}
                title = "_".join(f"{key}-{value}" for key, value in parts.items())
                rows.append(Row(name=title, preset=name, settings=settings))
        if bad := next((row for row in rows if not _is_file_name(row.name)), None):
            raise BadSetting(f"{bad.name} cannot name a folder: expected short values without /")
        return rows

    def run_folder(self, row: Row) -> Path:
        """Return the folder of a run."""
        return self.out / RUNS / row.name

    def result_file(self, row: Row) -> Path:
        """Return the file with what was measured of a run."""
        return self.out / RESULTS / f"{row.name}.json"

    def fingerprint(self, row: Row) -> str:
        """Return a checksum of all that the result of a run depends on."""
        tables = {name: value for name, value in self.recipe.tables.items() if name != "sweep"}
        return checksum({"recipe": tables, "settings": dict(row.settings)})

    def measured(self, row: Row) -> Measured | None:
        """Return what was measured of a run; None if it has not finished."""
        path = self.result_file(row)
        if not path.exists():
            return None
        stored = read_checksummed(path, FORMAT, "results")
        if stored["of"] != self.fingerprint(row):
            raise BadRun(
                f"{path} is of another recipe or other settings: continue with the same, or choose "
                "another --out"
            )
        return Measured(values=stored["values"], failure=stored["failure"])

    def combination(self, row: Row) -> dict[str, str]:
        """Return the values of the swept settings in a run."""
        return {name: row.settings[name] for name in self.grid.values}


def records_of_texts(recipe: Recipe) -> list[InputRecord]:
    """Return records of the files that a recipe names; those of data sets do not change."""
    data = recipe.data
    files = [data.train, data.valid, data.test]
    files += [each for table in data.corpora for each in (table.files, table.valid)]
    paths = [Path(path) for each in files for path in each or () if path is not None]
    return [InputFile(path, str(path.resolve())).to_record() for path in paths if path.is_file()]


def require_same_texts(sweep: Sweep, rows: Sequence[Row]) -> None:
    """Refuse results of other texts than those that the files have now."""
    checked = set()
    for path in filter(Path.exists, map(sweep.result_file, rows)):
        for values in read_checksummed(path, FORMAT, "results").get("texts", ()):
            record = InputRecord(**values)
            file = InputFile(Path(record.path), record.path)
            if record not in checked and file.path.exists() and not file.matches(record):
                raise BadRun(
                    f"{record.path} has changed since {path} was measured: continue with the same "
                    "text, or choose another --out"
                )
            checked.add(record)


def _is_file_name(name: str) -> bool:
    return len(name.encode()) <= 200 and not set(name) & set('/\\:*?"<>|\0')


def train_row(sweep: Sweep, row: Row, progress: Progress) -> None:
    """Train one run, or continue it, and store what was measured; a diverged run has a result."""
    values: dict[str, float] = {}
    failure = ""
    run = sweep.run_folder(row)
    overrides = Overrides(settings=dict(row.settings))
    try:
        evaluation = follow(
            *(sweep.recipe, run, overrides),
            data=sweep.data,
            device=sweep.device,
            progress=progress,
        )
        values = measure(run, evaluation)
    except Diverged as error:
        failure = str(error)
        progress.say(failure)
    texts = [dataclasses.asdict(record) for record in records_of_texts(sweep.recipe)]
    result = {"of": sweep.fingerprint(row), "values": values, "failure": failure, "texts": texts}
    write_checksummed(sweep.result_file(row), {"format": FORMAT, **result})


def measure(run: Path, evaluation: Evaluation | None) -> dict[str, float]:
    """Return the last validation of a run, and its scores on the test set."""
    history = read_history(run, run.name)
    values = {}
    for title, name in (("valid loss", "valid_loss"), ("valid BLEU", "valid_bleu")):
        logged = [row[name] for row in history.rows if name in row]
        if logged:
            values[title] = logged[-1]
    if evaluation:
        values |= {score.name: score.value for score in evaluation.scores}
    return values


def train_sweep(
    sweep: Sweep,
    progress: Progress,
    *,
    jobs: int = 1,
    only: int | None = None,
) -> Path | None:
    """Train the runs that have not finished and write the tables; return the path of table.md.

    `only` trains a single run, by its number from 1. Without a finished run there is no table.
    """
    rows = sweep.rows()
    if only is not None and not 1 <= only <= len(rows):
        raise BadInput(f"--only {only}: expected a number from 1 to {len(rows):,}")
    check_data(sweep.recipe.data, sweep.data, None)
    require_same_texts(sweep, rows)
    if not (sweep.out / RUNS).is_dir():
        require_new(sweep.out)
    chosen = rows if only is None else [rows[only - 1]]
    waiting = [row for row in chosen if sweep.measured(row) is None]
    if len(waiting) < len(chosen):
        progress.say(f"{pluralize(len(chosen) - len(waiting), 'run')} finished before")
    for folder in (RUNS, RESULTS):
        (sweep.out / folder).mkdir(parents=True, exist_ok=True)
    if jobs > 1 and len(waiting) > 1:
        fetch_data(sweep.recipe.data, sweep.data, progress)  # once, before the processes do
        run_side_by_side(functools.partial(train_row, sweep), waiting, jobs, progress)
    else:
        for number, row in enumerate(waiting, start=1):
            progress.say(f"{row.name}: run {number:,} of {len(waiting):,} to do")
            train_row(sweep, row, progress)
    finished = [(sweep.combination(row), row, sweep.measured(row)) for row in rows]
    runs = [
        {"settings": combination, "seed": int(row.settings["seed"]), **dataclasses.asdict(measured)}
        for combination, row, measured in finished
        if measured
    ]
    return write_tables(sweep.out, runs, len(rows)) if runs else None


def describe(sweep: Sweep, rows: Sequence[Row]) -> list[str]:
    """Return a line for each run: its number, its settings and whether it has finished."""
    return [
        f"{number:>{len(str(len(rows)))}}  {row.name}{_state(sweep, row)}"
        for number, row in enumerate(rows, start=1)
    ]


def _state(sweep: Sweep, row: Row) -> str:
    if measured := sweep.measured(row):
        return "  diverged" if measured.failure else "  finished"
    return "  started" if sweep.run_folder(row).is_dir() else ""


def slurm_script(sweep: Sweep, runs: int, command: str) -> str:
    """Return a job array for Slurm, each of whose tasks trains one run."""
    return (
        "#!/bin/bash\n"
        "#SBATCH --job-name=sweep\n"
        f"#SBATCH --array=1-{runs}\n"
        "#SBATCH --output=sweep-%A_%a.log\n"
        "# Add what your cluster needs, such as --partition, --gres=gpu:1 and --time. A task that\n"
        "# is stopped continues when it is submitted again. Afterwards, the same command without\n"
        "# --only writes the tables of all runs. A data set is best downloaded beforehand.\n"
        f'exec {command} --only "$SLURM_ARRAY_TASK_ID"\n'
    )
