"""All experiments within a time, and one page of what they found.

DIR/
  plan.json        the time, and what follows from it: the same when the work goes on
  table1/ …        a folder for each experiment
  report.html

Each has a share of the time; one whose turn comes when too little is left is left out, and the
page says so. Called again it goes on: what is finished stays.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.corpus.token_files import open_corpus
from transduce.errors import BadRun, Interrupted, TransduceError
from transduce.experiments.budget import LONGEST, Budget, pace
from transduce.experiments.claims import Trial, pocket_texts
from transduce.experiments.comparison import CORPUS
from transduce.experiments.experiment_folder import OTHERWISE, require_new
from transduce.experiments.findings import Finding
from transduce.experiments.rows import Data
from transduce.presets import find_preset
from transduce.system.devices import choose_device
from transduce.system.files import read_checksummed, write_checksummed
from transduce.system.formatting import format_duration
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.reading import check_readable
from transduce.training.settings import begun, settled

FORMAT = 1
PLAN = "plan.json"
FIELDS = {"seconds": float, "steps": dict[str, int] | None}
# Rows of Table 3 in the order of what they tell; those for which no time is left wait.
ROWS = (
    *("base", "C-N2", "A-h1", "C-d256", "D-drop0", "C-ff1024", "B-dk16", "A-h32", "D-ls0"),
    *("E-learned", "C-N8", "C-ff4096", "D-drop0.2", "C-N4", "A-h4", "A-h16", "B-dk32", "D-ls0.2"),
    *("C-d1024", "big"),
)
TRAINED = 11  # rows that a share is divided by
SHARES = {
    "table1": 0.08,
    "table2": 0.30,
    "table3": 0.32,
    "figures": 0.02,
    "scaling": 0.06,
    "positions": 0.07,
    "smoothing": 0.07,
    "table4": 0.20,
}
OF_STEPS = 0.5  # of the time of an experiment: the rest goes to preparing, validating, translating
# Seconds beside its steps that a training takes on a GPU, and the least part that is left to these.
BESIDE, LEAST_OF_STEPS = {"table2": 80.0, "table3": 25.0}, 0.3
LEAST = 0.4  # of its share that must be left for an experiment to begin
# Of a claim: the trainings, and the most steps of each that are worth their time.
CLAIMS = {"scaling": (3, 2_000), "positions": (3, 4_000), "smoothing": (3, 4_000)}
FEWEST = 10  # steps
TOKENS = tuple(2**power for power in range(4, 14))  # n of Table 1, 16 to 8,192
WIDE = {"h": "1", "d_k": "256", "d_v": "256"}  # a head whose dot products need scaling
POCKET = (20_000, 500)  # pairs of the corpus that comes along: to train on, and to test
LENGTHS = (8, 200)  # words that are trained on, and test sentences of a length
Saved = Callable[[Finding, Path], None]


@dataclass(frozen=True, kw_only=True)
class AllExperiments:
    """What to measure, on what, and for how long."""

    data: Data
    out: Path
    seconds: float
    trees: tuple[Path, Path, Path] | None = None  # to train on, to validate, to test
    systems: Sequence[str] = ()  # of Table 2
    rows: Sequence[str] = ROWS  # of Table 3
    preset: str | None = None  # of what the claims train
    settings: Mapping[str, str]
    device: str = "auto"

    def run(self, save: Saved, progress: Progress) -> list[str]:
        """Do one after the other, save what each found; return what was left out, and why."""
        self.data.require()
        for path in self.trees or ():
            check_readable(path)
        for name in (*self._systems(), self._preset()):  # what is mistyped is refused at once
            settled(find_preset(name), self.settings, None)
        choose_device(self.device)
        self._begin()
        with signals_as_interrupt():
            return self._run(save, progress)

    def _run(self, save: Saved, progress: Progress) -> list[str]:
        left_out = []
        if self.trees is None:
            left_out.append("table4: no trees were given (--trees TRAIN DEV TEST).")
        shares = self.shares()
        end = time.monotonic() + self.seconds
        for name, share in shares.items():
            left = end - time.monotonic()
            if left < LEAST * share:
                left_out.append(
                    f"{name}: of the {format_duration(self.seconds)} too little was left; "
                    "the same command goes on with it."
                )
                continue
            progress.say(f"{name}: about {format_duration(min(share, left))}")
            try:
                finding = self._one(name, share, time.monotonic() + min(share, left), progress)
            except Interrupted:
                raise
            except TransduceError as error:  # the others are worth having
                progress.say(f"{name} is left out: {error}")
                left_out.append(f"{name}: {error}")
                continue
            save(finding, self.out / name)
            left_out += self._unfinished(name, finding)
        return left_out

    def shares(self) -> dict[str, float]:
        """Return the seconds of each experiment, in the order of their turns."""
        chosen = {name: one for name, one in SHARES.items() if name != "table4" or self.trees}
        whole = sum(chosen.values())
        return {name: self.seconds * share / whole for name, share in chosen.items()}

    def _begin(self) -> None:
        """Remember the time, or refuse another: trainings that have begun depend on it."""
        path = self.out / PLAN
        if not path.exists():
            require_new(self.out)
            write_checksummed(path, {"format": FORMAT, "seconds": self.seconds})
        before = read_checksummed(path, FORMAT, "a plan", FIELDS)["seconds"]
        if before != self.seconds:
            raise BadRun(
                f"{self.out} was begun with a time of {format_duration(before)}, not "
                f"{format_duration(self.seconds)}: {OTHERWISE}"
            )

    def _one(self, name: str, share: float, until: float, progress: Progress) -> Finding:
        """Do one experiment in about its share of the time."""
        if name == "table1":
            from transduce.experiments.costs import Plan
            from transduce.experiments.table1 import table1

            plan = Plan(n=TOKENS, seconds=share * OF_STEPS)
            return table1(plan, self.device, progress)
        if name == "table2":
            return self._table2(share, until, progress)
        if name == "table3":
            return self._table3(share, until, progress)
        if name == "table4":
            return self._table4(share, progress)
        if name == "figures":
            from transduce.experiments.figures import figures

            return figures(self.out / "table2" / self._systems()[0], [], progress)
        return self._claim(name, share, progress)

    def _systems(self) -> Sequence[str]:
        from transduce.experiments.table2 import systems_for

        return self.systems or systems_for(self.device)

    def _unfinished(self, name: str, finding: Finding) -> list[str]:
        """Say which systems or rows there was no time for."""
        wanted = {"table2": self._systems(), "table3": self.rows}.get(name, ())
        missing = [one for one in wanted if one not in finding.data.get("results", {})]
        if not missing:
            return []
        return [f"{name}: no time was left for {', '.join(missing)}; the same command goes on."]

    def _table2(self, share: float, until: float, progress: Progress) -> Finding:
        from transduce.experiments.table2 import table2

        systems = self._systems()
        return table2(
            self.data,
            out=self.out / "table2",
            systems=systems,
            budget=_each("table2", share, len(systems)),
            settings=self.settings,
            device=self.device,
            keep_weights=True,  # for the figures
            until=until,
            progress=progress,
        )

    def _table3(self, share: float, until: float, progress: Progress) -> Finding:
        from transduce.experiments.table3 import table3

        small = choose_device(self.device).type != "cuda"
        return table3(
            self.data,
            out=self.out / "table3",
            rows=self.rows,
            budget=_each("table3", share, min(len(self.rows), TRAINED)),
            shrink=4 if small else 1,
            settings=({"batch_tokens": "4000"} if small else {}) | dict(self.settings),
            device=self.device,
            until=until,
            progress=progress,
        )

    def _table4(self, share: float, progress: Progress) -> Finding:
        from transduce.experiments.parser_experiment import Experiment
        from transduce.experiments.table4 import table4

        assert self.trees is not None
        train, valid, test = self.trees
        seconds = {"seconds": f"{_whole(share * OF_STEPS):g}"}
        experiment = Experiment(
            folder=self.out / "table4",
            train=train,
            valid=valid,
            test=test,
            settings=seconds | dict(self.settings),
            device=self.device,
        )
        return table4(experiment, progress)

    def _claim(self, name: str, share: float, progress: Progress) -> Finding:
        """Measure a claim of the text, in as many steps as the share allows."""
        from transduce.experiments.positions import positions
        from transduce.experiments.scaling import WIDTHS, scaling
        from transduce.experiments.smoothing import smoothing

        folder = self.out / name
        given = self.data if self.data.valid or self.data.test else None
        if name == "positions" or given is None:  # it needs sentences of known lengths
            given = pocket_texts(folder / "texts", *POCKET)
        settings = dict(self.settings) | (WIDE if name == "scaling" else {})
        trial = Trial(
            out=folder,
            preset=self._preset(),
            steps=self._steps(name, share),
            settings=settings,
            device=self.device,
        )
        if name == "scaling":
            return scaling(WIDTHS, trial, given, progress)
        if name == "positions":
            return positions(trial, given, *LENGTHS, progress)
        return smoothing(trial, given, (0.0, 0.1, 0.2), (1,), progress)

    def _preset(self) -> str:
        return self.preset or ("tiny" if choose_device(self.device).type != "cuda" else "small")

    def _steps(self, name: str, share: float) -> int:
        """Return how many steps each training of a claim makes; the same when the work goes on."""
        path = self.out / PLAN
        plan = read_checksummed(path, FORMAT, "a plan", FIELDS)
        steps = plan["steps"] = plan.get("steps") or {}
        if name not in steps:
            trainings, most = CLAIMS[name]
            promised = self._pace() * share * OF_STEPS / trainings
            steps[name] = max(FEWEST, min(most, int(promised)))
            write_checksummed(path, plan)
        return int(steps[name])

    def _pace(self) -> float:
        """Measure how many steps a second a claim's training makes, on a corpus that is there."""
        there = [self.out / name / CORPUS for name in ("table2", "table3")]
        corpora = [folder for folder in there if folder.exists()]
        if not corpora:
            return FEWEST
        corpus, device = open_corpus(corpora[0]), choose_device(self.device)
        config = begun(corpus, self._preset(), self.settings, device, Silent())
        return pace(config, corpus, device, LONGEST)


def _each(name: str, share: float, trainings: int) -> Budget:
    """Divide a share among trainings, and leave time for what is done beside their steps."""
    each = share / trainings
    return Budget(seconds=_whole(max(each * LEAST_OF_STEPS, each - BESIDE[name])))


def _whole(seconds: float) -> float:
    """Return whole seconds, at least one."""
    return float(max(1, int(seconds)))
