"""All experiments within a time budget, and one page with their findings.

DIR/
  plan.json        the time budget and the steps derived from it, kept for later calls
  table1/ …        a folder for each experiment
  report.html

Each experiment has a share of the time. If too little time is left, the experiment is skipped,
and the page says so. Repeat the call to continue: finished work is kept.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transduce.corpus.token_files import open_corpus
from transduce.errors import BadInput, BadRun, Interrupted, TransduceError
from transduce.experiments.budget import LONGEST_TIMING, Budget, steps_per_second
from transduce.experiments.claims import Trial, pocket_texts
from transduce.experiments.comparison import CORPUS, Setup
from transduce.experiments.experiment_folder import ADVICE, RESULT, require_new
from transduce.experiments.figures import figures
from transduce.experiments.findings import Finding
from transduce.experiments.memory import MemoryTrial, memory
from transduce.experiments.paper_numbers import EN_FR, papers_pair
from transduce.experiments.parser_experiment import ParserExperiment
from transduce.experiments.positions import positions
from transduce.experiments.rows import Data
from transduce.experiments.scaling import WIDTHS, scaling
from transduce.experiments.semi_budget import within
from transduce.experiments.smoothing import smoothing
from transduce.experiments.table1 import table1
from transduce.experiments.table1_measurement import Plan
from transduce.experiments.table2 import systems_for, table2
from transduce.experiments.table3 import table3
from transduce.experiments.table4 import table4
from transduce.experiments.table4_semi import table4_semi
from transduce.experiments.training import training
from transduce.presets import find_preset
from transduce.system.devices import choose_device
from transduce.system.files import read_checksummed, write_checksummed
from transduce.system.formatting import format_duration
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.reading import check_readable
from transduce.training.settings import configure, new_config

FORMAT = 1
PLAN = "plan.json"
# Rows of Table 3, most informative first: later ones are trained only if time is left.
ROWS = (
    *("base", "C-N2", "A-h1", "C-d256", "D-drop0", "C-ff1024", "B-dk16", "A-h32", "D-ls0"),
    *("E-learned", "C-N8", "C-ff4096", "D-drop0.2", "C-N4", "A-h4", "A-h16", "B-dk32", "D-ls0.2"),
    *("C-d1024", "big"),
)
ROWS_WITHIN_SHARE = 11  # Table 3's share is divided among at most this many rows
FRENCH = "table2_en_fr"
SHARES = {
    "table1": 0.08,
    "table2": 0.30,
    FRENCH: 0.20,
    "table3": 0.32,
    "figures": 0.02,
    "scaling": 0.06,
    "positions": 0.07,
    "smoothing": 0.07,
    "training": 0.08,
    "memory": 0.04,
    "table4": 0.20,
}
# Experiments that need a text of their own, and how to give it.
NEEDS = {
    FRENCH: "no French was given (--french EN FR)",
    "table4": "no trees were given (--trees TRAIN DEV TEST)",
}
TRAINING_SHARE = 0.5  # of an experiment's time; the rest is preparation, validation, translation
# On a GPU: seconds that a training run spends outside its steps, and the minimum share for steps.
OVERHEAD, LEAST_TRAINING_SHARE = {"table2": 80.0, FRENCH: 80.0, "table3": 25.0}, 0.3
LEAST_SHARE = 0.4  # minimum part of its share that must be left for an experiment to start
# For each claim: the number of training runs, and the maximum steps of each.
CLAIMS = {
    "scaling": (3, 2_000),
    "positions": (3, 4_000),
    "smoothing": (3, 4_000),
    "training": (6, 4_000),
}
LEAST_STEPS = 10
TABLE_1_LENGTHS = tuple(2**power for power in range(4, 14))  # n: 16 to 8,192
WIDE_HEAD = {"h": "1", "d_k": "256", "d_v": "256"}  # dot products that need scaling
POCKET_PAIRS = (20_000, 500)  # from the built-in corpus: for training, and for test
LENGTHS = (8, 200)  # maximum words in training, and test sentences per length
# Other warm-ups and values of P_drop, and the most sentences to translate with each checkpoint.
VARIED = (0.25, 4.0), (0.0, 0.3), 500
HOPS = (1, 2, 3)
MEMORY = {"steps": 2_500, "stories": 20_000}
SECONDS_PER_SEED, MOST_SEEDS = 50.0, 5  # of the memory networks, on one core
# With less, the parsers agree on too few trees for a semi-supervised parser.
LEAST_SEMI_SUPERVISED = {"cuda": 120.0, "cpu": 900.0}

Save = Callable[[Finding, Path], None]


@dataclass(frozen=True, kw_only=True)
class AllExperiments:
    """All experiments on one data set, within a time budget."""

    data: Data
    out: Path
    seconds: float
    french: Data | None = None  # for Table 2
    trees: tuple[Path, Path, Path] | None = None  # training, validation, test
    systems: Sequence[str] = ()  # of Table 2
    rows: Sequence[str] = ROWS  # of Table 3
    settings: Mapping[str, str]
    device: str = "auto"

    def run(self, save: Save, progress: Progress) -> list[str]:
        """Run and save the experiments in turn; return what was skipped, and why."""
        for data in (self.data, self.french):
            if data is not None:
                data.require()
        for path in self.trees or ():
            check_readable(path)
        for name in (*self._systems(), self._preset()):  # refuse unknown names and settings early
            configure(find_preset(name), self.settings, None)
        if self.french is not None and papers_pair(self.data.pair()) == EN_FR:
            raise BadInput("the main text is English and French too: leave out --french")
        choose_device(self.device)
        self._begin()
        with signals_as_interrupt():
            return self._run_each(save, progress)

    def _run_each(self, save: Save, progress: Progress) -> list[str]:
        skipped = [f"{name}: {NEEDS[name]}." for name in self._without_text()]
        end = time.monotonic() + self.seconds
        for name, share in self.shares().items():
            remaining = end - time.monotonic()
            if remaining < LEAST_SHARE * share:
                skipped.append(
                    f"{name}: too little of the {format_duration(self.seconds)} was left; "
                    "the same command continues with it."
                )
                continue
            progress.say(f"{name}: about {format_duration(min(share, remaining))}")
            until = time.monotonic() + min(share, remaining)
            try:
                finding = self._run_experiment(name, share, until, progress)
            except Interrupted:
                raise
            except TransduceError as error:  # the other experiments can still run
                progress.say(f"{name} is skipped: {error}")
                skipped.append(f"{name}: {error}")
                continue
            save(finding, self.out / name)
            skipped += self._unfinished(name, finding)
        return skipped

    def shares(self) -> dict[str, float]:
        """Return the seconds for each experiment, in the order they are run."""
        missing = self._without_text()
        chosen = {name: share for name, share in SHARES.items() if name not in missing}
        total = sum(chosen.values())
        return {name: self.seconds * share / total for name, share in chosen.items()}

    def _without_text(self) -> list[str]:
        """Return the experiments whose own text is not given."""
        texts = {FRENCH: self.french, "table4": self.trees}
        return [name for name, text in texts.items() if text is None]

    def _begin(self) -> None:
        """Record the time budget, or refuse a different one: runs already started depend on it."""
        path = self.out / PLAN
        if not path.exists():
            require_new(self.out)
            new = {"format": FORMAT, "seconds": self.seconds, "without": self._without_text()}
            write_checksummed(path, new)
        plan = read_checksummed(path, FORMAT, "a plan")
        before = plan["seconds"]
        if before != self.seconds:
            raise BadRun(
                f"{self.out} was started with a time of {format_duration(before)}, not "
                f"{format_duration(self.seconds)}: {ADVICE}"
            )
        if plan.get("without", self._without_text()) != self._without_text():
            raise BadRun(
                f"{self.out} was started with other optional texts (--french, --trees), on which "
                f"the time for each experiment depends: {ADVICE}"
            )

    def _run_experiment(self, name: str, share: float, until: float, progress: Progress) -> Finding:
        """Run one experiment in about its share of the time."""
        plan = Plan(n=TABLE_1_LENGTHS, seconds=share * TRAINING_SHARE)
        others: dict[str, Callable[[], Finding]] = {
            "table1": lambda: table1(plan, self.device, progress),
            "table2": lambda: self._table2(name, share, until, progress),
            FRENCH: lambda: self._table2(name, share, until, progress),
            "table3": lambda: self._table3(share, until, progress),
            "table4": lambda: self._table4(share, progress),
            "figures": lambda: figures(self.out / "table2" / self._systems()[0], [], progress),
            "memory": lambda: self._memory(share, progress),
        }
        return others[name]() if name in others else self._claim(name, share, progress)

    def _systems(self) -> Sequence[str]:
        return self.systems or systems_for(self.device)

    def _unfinished(self, name: str, finding: Finding) -> list[str]:
        """List the systems or rows that there was no time for."""
        if name == "table4" and "rows" not in finding.data:
            return [
                "table4: too little time for a semi-supervised parser; one is trained on trees."
            ]
        tables = {"table2": self._systems(), FRENCH: self._systems(), "table3": self.rows}
        results = finding.data.get("results", {})
        missing = [row for row in tables.get(name, ()) if row not in results]
        if not missing:
            return []
        listed = ", ".join(missing)
        return [f"{name}: no time was left for {listed}; the same command continues with them."]

    def _table2(self, name: str, share: float, until: float, progress: Progress) -> Finding:
        """Run Table 2; the one into French shows the first beside it, if that has results."""
        systems, first = self._systems(), self.out / "table2"
        data = self.data if name == "table2" else self.french
        assert data is not None
        setup = Setup(
            out=self.out / name,
            data=data,
            budget=_budget(name, share, len(systems)),
            settings=self.settings,
            device=self.device,
            keep_weights=True,  # for the figures
            until=until,
        )
        beside = first if name == FRENCH and any(first.glob(f"*/{RESULT}")) else None
        return table2(setup, systems, progress, beside=beside)

    def _table3(self, share: float, until: float, progress: Progress) -> Finding:
        small = choose_device(self.device).type != "cuda"
        setup = Setup(
            out=self.out / "table3",
            data=self.data,
            budget=_budget("table3", share, min(len(self.rows), ROWS_WITHIN_SHARE)),
            settings=({"batch_tokens": "4000"} if small else {}) | dict(self.settings),
            device=self.device,
            until=until,
        )
        return table3(setup, self.rows, progress, shrink=4 if small else 1)

    def _table4(self, share: float, progress: Progress) -> Finding:
        assert self.trees is not None
        train, valid, test = self.trees
        base = ParserExperiment(
            folder=self.out / "table4",
            train=train,
            valid=valid,
            test=test,
            settings=self.settings,
            device=self.device,
        )
        kind = choose_device(self.device).type
        if share >= LEAST_SEMI_SUPERVISED.get(kind, LEAST_SEMI_SUPERVISED["cpu"]):
            return table4_semi(within(base, share), progress)
        seconds = {"seconds": f"{_whole_seconds(share * TRAINING_SHARE):g}"}
        return table4(replace(base, settings=seconds | dict(self.settings)), progress)

    def _memory(self, share: float, progress: Progress) -> Finding:
        """Train memory networks with as many seeds as the share allows, or with fewer steps."""
        seeds = max(1, min(MOST_SEEDS, int(share / SECONDS_PER_SEED)))
        part = min(1.0, share / SECONDS_PER_SEED)
        trial = MemoryTrial(
            out=self.out / "memory",
            hops=HOPS,
            seeds=range(1, seeds + 1),
            steps=max(LEAST_STEPS, int(part * MEMORY["steps"])),
            stories=MEMORY["stories"],
            device=self.device,
        )
        return memory(trial, progress)

    def _claim(self, name: str, share: float, progress: Progress) -> Finding:
        """Test a claim, with as many training steps as the share allows."""
        folder = self.out / name
        data = self.data if self.data.valid or self.data.test else None
        if name == "positions" or data is None:  # positions needs sentences of known lengths
            data = pocket_texts(folder / "texts", *POCKET_PAIRS)
        trial = Trial(
            out=folder,
            preset=self._preset(),
            steps=self._steps(name, share),
            settings=dict(self.settings) | (WIDE_HEAD if name == "scaling" else {}),
            device=self.device,
        )
        if name == "scaling":
            return scaling(WIDTHS, trial, data, progress)
        if name == "training":
            return training(trial, data, *VARIED, progress)
        if name == "positions":
            return positions(trial, data, *LENGTHS, progress)
        return smoothing(trial, data, (0.0, 0.1, 0.2), (1,), progress)

    def _preset(self) -> str:
        return "tiny" if choose_device(self.device).type != "cuda" else "small"

    def _steps(self, name: str, share: float) -> int:
        """Return the steps per training run for a claim; later calls return the same number."""
        path = self.out / PLAN
        plan = read_checksummed(path, FORMAT, "a plan")
        steps = plan["steps"] = plan.get("steps") or {}
        if name not in steps:
            trainings, most = CLAIMS[name]
            possible = self._speed() * share * TRAINING_SHARE / trainings
            steps[name] = max(LEAST_STEPS, min(most, int(possible)))
            write_checksummed(path, plan)
        return int(steps[name])

    def _speed(self) -> float:
        """Measure the steps per second when training for a claim, on an existing corpus."""
        folders = [self.out / name / CORPUS for name in ("table2", "table3")]
        corpora = [folder for folder in folders if folder.exists()]
        if not corpora:
            return LEAST_STEPS
        corpus, device = open_corpus(corpora[0]), choose_device(self.device)
        config = new_config(corpus, self._preset(), self.settings, device, Silent())
        return steps_per_second(config, corpus, device, LONGEST_TIMING)


def _budget(name: str, share: float, trainings: int) -> Budget:
    """Divide a share among training runs, and leave time for the work outside their steps."""
    each = share / trainings
    seconds = max(each * LEAST_TRAINING_SHARE, each - OVERHEAD[name])
    return Budget(seconds=_whole_seconds(seconds))


def _whole_seconds(seconds: float) -> float:
    return float(max(1, int(seconds)))
