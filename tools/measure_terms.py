"""Measure what a glossary and protected spans cost and bring, over several seeds.

    PYTHONPATH=src python tools/measure_terms.py train.en-de.tsv.xz valid.en-de.tsv.xz --out results
    PYTHONPATH=src python tools/measure_terms.py --report results/outputs.json.xz

Trains a model for each seed and each of the conditions plain, spans (`spans=0.2`) and terms
(`spans=0.2`, `terms=0.1`), --jobs at a time. A glossary of 300 terms is extracted from the training
text. Each model translates the test text with and without glossary, and with and without
protection of spans. One pair in 150 of the training text is held out: `--test held` measures on
these pairs instead, so that nothing needs to be chosen on the test text.

--work keeps trained models, and what was measured of each: the same command again continues where
it was stopped. --out gets the outputs (outputs.json.xz), and all figures (results.json), which are
printed last. Without sacrebleu there is no BLEU; --report computes it from the outputs elsewhere.
"""

import argparse
import json
import lzma
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from terms_report import report

from transduce import Translator
from transduce.config import SearchConfig
from transduce.glossary import Glossary, extract_terms
from transduce.markup.protected import find_literal
from transduce.markup.spans import BUILT_IN
from transduce.system.processes import cores
from transduce.system.progress import Silent
from transduce.text.languages import guess_languages
from transduce.text.reading import read_pairs
from transduce.training.train import train
from transduce.translation.types import Engine, Hypothesis, Ints, Job

CONDITIONS: dict[str, dict[str, str]] = {
    "plain": {},
    "spans": {"spans": "0.2"},
    "terms": {"spans": "0.2", "terms": "0.1"},
}
VARIANTS = {  # (glossary, protection)
    "plain": (False, False),
    "glossary": (True, False),
    "required": (True, False),  # no term is placed by alignment
    "spans": (False, True),
    "spans+glossary": (True, True),
}
HELD_OUT = 150  # one pair in so many
TRAIN, HELD, TERMS = "train.tsv", "held.tsv", "terms.tsv"  # in the work folder


@dataclass(frozen=True)
class Plan:
    """The options that all runs share."""

    work: str
    languages: str
    preset: str
    steps: int
    settings: dict[str, str]
    device: str
    test: str  # the file to translate
    test_name: str
    sentences: int  # of the test; 0: all


@dataclass(frozen=True)
class Run:
    """One model."""

    condition: str
    seed: int

    def folder(self, plan: Plan) -> Path:
        """Return where it is trained."""
        return Path(plan.work) / f"{self.condition}-{self.seed}"

    def result(self, plan: Plan) -> Path:
        """Return the file with what was measured of it."""
        name = f"{self.condition}-{self.seed}-{plan.test_name}-{plan.sentences or 'all'}.json.xz"
        return Path(plan.work) / name


class CountingEngine:
    """An engine that counts the sentences that are searched again, and how."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name, self.batch = engine, engine.name, engine.batch
        self.again: set[int] = set()
        self.searches: Counter[str] = Counter()

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Count the jobs and search."""
        for job in jobs:
            if len(job.number) > 2:  # the third is the number of the attempt
                self.again.add(job.number[0])
                how = "required" if job.required else "placed" if job.prefix else "cut"
                self.searches[how] += 1
        return self.engine.search(jobs, config, batch)

    def lanes(self) -> Sequence[Engine]:
        """Return the engine's."""
        return self.engine.lanes()

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Score with the engine."""
        return self.engine.score(pairs)

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[Any]:
        """Align with the engine."""
        return self.engine.align(pairs)


def main(arguments: list[str] | None = None) -> None:
    """Train and translate what is not done yet; print the tables."""
    options = make_parser().parse_args(arguments)
    if options.report:
        show_report(json.loads(lzma.decompress(options.report.read_bytes())), options.report.parent)
        return
    if not (options.train and options.test_text):
        raise SystemExit("expected the training text and the test text, or --report")
    start = time.monotonic()
    plan = make_plan(options)
    runs = [Run(name, seed) for seed in options.seeds for name in options.conditions]
    prepare_texts(options, plan)
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(max(1, len_cores() // min(options.jobs, len(runs))))
    failed = measure_all(plan, runs, options.jobs, options.terms, start)
    gathered = gather(plan, runs)
    options.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps(gathered, ensure_ascii=False).encode()
    (options.out / "outputs.json.xz").write_bytes(lzma.compress(content))
    if gathered["runs"]:
        show_report(gathered, options.out)
    say(f"{time.monotonic() - start:.0f} s")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("train", type=Path, nargs="?", help="a TSV, its name ends with en-de")
    parser.add_argument("test_text", type=Path, nargs="?", help="a TSV")
    parser.add_argument("--out", type=Path, default=Path("terms-results"))
    parser.add_argument("--work", type=Path, default=Path("terms-work"))
    parser.add_argument("--preset", default="small")
    parser.add_argument("--steps", type=int, default=3500)
    parser.add_argument("--batch", type=int, default=8000, help="tokens per update")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3], help="1,2,3")
    parser.add_argument("--conditions", type=conditions, default=[*CONDITIONS], help="plain,spans")
    parser.add_argument("--jobs", type=int, default=9, help="runs side by side")
    parser.add_argument("--terms", type=int, default=300, help="of the glossary")
    parser.add_argument("--test", choices=("valid", "held"), default="valid")
    parser.add_argument("--sentences", type=int, default=0, help="of the test; 0: all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--report", type=Path, metavar="OUTPUTS", help="print the tables only")
    return parser


def make_plan(options: argparse.Namespace) -> Plan:
    """Return the plan; refuse a work folder of another one."""
    settings = {
        "vocabulary": str(options.vocabulary),
        "batch_tokens": str(options.batch),
        "validate_every": str(max(1, options.steps // 2)),
        "validate_bleu": "0",
        "save_every": str(max(1, options.steps // 20)),
        **dict(setting.split("=", 1) for setting in options.set),
    }
    source, target = guess_languages(options.train, None)
    held = options.test == "held"
    plan = Plan(
        *(str(options.work), f"{source}-{target}", options.preset, options.steps, settings),
        device=options.device,
        test=str(options.work / HELD if held else options.test_text),
        test_name=options.test,
        sentences=options.sentences,
    )
    shared = {"preset": plan.preset, "steps": plan.steps, "settings": settings}
    shared |= {"text": options.train.name, "terms": options.terms}
    file = options.work / "options.json"
    if not file.exists():
        options.work.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(shared))
    elif (before := json.loads(file.read_text())) != shared:
        raise SystemExit(f"{options.work} was made with {before}: choose another --work")
    return plan


def prepare_texts(options: argparse.Namespace, plan: Plan) -> None:
    """Write the training text and the held-out pairs."""
    work = Path(plan.work)
    if (work / HELD).exists():
        return
    pairs = [pair for pair in read_pairs(options.train, None) if all(side.strip() for side in pair)]
    held = pairs[HELD_OUT - 1 :: HELD_OUT]
    del pairs[HELD_OUT - 1 :: HELD_OUT]
    for name, part in ((TRAIN, pairs), (HELD, held)):
        lines = [f"{source}\t{target}\n" for source, target in part]
        (work / f"{name}.partial").write_text("".join(lines), encoding="utf-8")
        (work / f"{name}.partial").rename(work / name)
    say(f"{len(pairs):,} pairs to train on, {len(held):,} held out")


def measure_all(plan: Plan, runs: list[Run], jobs: int, terms: int, start: float) -> list[str]:
    """Measure the runs that are not measured, and return the names of those that failed."""
    waiting = [run for run in runs if not run.result(plan).exists()]
    failed: list[str] = []
    if not waiting:
        return failed
    if jobs == 1:
        write_glossary(Path(plan.work), terms)
        for run in waiting:
            say(f"{time.monotonic() - start:5.0f} s {measure(plan, run)}")
        return failed
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(waiting)), mp_context=context) as pool:
        futures = {pool.submit(measure, plan, run): run for run in waiting}
        write_glossary(Path(plan.work), terms)  # meanwhile
        for future in as_completed(futures):
            run = futures[future]
            try:
                say(f"{time.monotonic() - start:5.0f} s {future.result()}")
            except Exception:  # the other runs go on
                say(f"{run.condition}-{run.seed} failed:\n{traceback.format_exc()}")
                failed.append(f"{run.condition}-{run.seed}")
    return failed


def write_glossary(work: Path, limit: int) -> None:
    """Extract the glossary from the training text."""
    if (work / TERMS).exists():
        return
    found = extract_terms(read_pairs(work / TRAIN, None), limit=limit)
    partial = work / f"{TERMS}.partial"
    partial.write_text("".join(f"{t.source}\t{t.target}\n" for t in found), encoding="utf-8")
    partial.rename(work / TERMS)


def wait_for_glossary(work: Path) -> Glossary:
    """Return the glossary as soon as it is written."""
    deadline = time.monotonic() + 600
    while not (work / TERMS).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{work / TERMS} was not written within 10 minutes")
        time.sleep(0.5)
    return Glossary.load(work / TERMS)


def measure(plan: Plan, run: Run) -> str:
    """Train a model and translate with it in all variants; return a line about it."""
    start = time.monotonic()
    folder = train(
        *(Path(plan.work) / TRAIN, None),
        out=run.folder(plan),
        valid=(Path(plan.work) / HELD, None),
        languages=plan.languages,
        preset=plan.preset,
        steps=plan.steps,
        seed=run.seed,
        settings={**plan.settings, **CONDITIONS[run.condition]},
        device=plan.device,
        progress=Silent(),
    )
    trained = time.monotonic() - start
    translator = Translator.load(folder, device=plan.device)
    glossary = wait_for_glossary(Path(plan.work))
    sources = [source for source, _ in test_pairs(plan)]
    translator.translate(sources[:64], split=False)  # compiles kernels
    variants = {name: translate(translator, sources, glossary, name) for name in VARIANTS}
    result = {**asdict(run), "seconds": trained, "variants": variants}
    partial = run.result(plan).with_suffix(".partial")
    partial.write_bytes(lzma.compress(json.dumps(result, ensure_ascii=False).encode()))
    partial.rename(run.result(plan))
    return f"{run.condition}-{run.seed}: trained in {trained:.0f} s, translated in " + ", ".join(
        f"{variant['seconds']:.1f}" for variant in variants.values()
    )


def translate(
    translator: Translator, sources: list[str], glossary: Glossary, name: str
) -> dict[str, Any]:
    """Translate the test in one variant; return outputs and what was counted."""
    with_glossary, keep = VARIANTS[name]
    engine, attends = translator.engine, translator._attends  # noqa: SLF001
    counting = CountingEngine(engine)
    translator.engine = counting
    translator._attends = name != "required"  # noqa: SLF001
    start = time.monotonic()
    try:
        translations = translator.translate(
            sources, split=False, keep=keep, glossary=glossary if with_glossary else None
        )
    finally:
        translator.engine, translator._attends = engine, attends  # noqa: SLF001
    seconds = time.monotonic() - start
    spans: Counter[str] = Counter()
    for translation in translations:
        source, output = translation.source, translation.text
        kept: list[tuple[str, str]]
        if keep:
            kept = [(span.text, span.placed) for span in translation.spans]
        else:
            kept = [(source[s.start : s.end], "unprotected") for s in BUILT_IN.find(source)]
        for text, placed in kept:
            wanted, found = (len(find_literal(side, text)) for side in (source, output))
            spans[f"{placed}, all"] += 1
            spans[f"{placed}, exact"] += wanted == found
            spans[f"{placed}, lost"] += found < wanted
    return {
        "outputs": [translation.text for translation in translations],
        "seconds": seconds,
        "again": len(counting.again),
        "searches": counting.searches,
        "spans": spans,
        "reported": sum(not term.found for each in translations for term in each.terms),
    }


def test_pairs(plan: Plan) -> list[tuple[str, str]]:
    """Return the pairs to translate."""
    pairs = [(one.strip(), other.strip()) for one, other in read_pairs(plan.test, None)]
    return pairs[: plan.sentences or None]


def gather(plan: Plan, runs: list[Run]) -> dict[str, Any]:
    """Return what the report needs."""
    done = [run.result(plan) for run in runs if run.result(plan).exists()]
    entries = Glossary.load(Path(plan.work) / TERMS).entries
    return {
        "plan": {name: value for name, value in asdict(plan).items() if name != "work"},
        "pairs": test_pairs(plan),
        "terms": [(entry.source, entry.target) for entry in entries],
        "runs": [json.loads(lzma.decompress(file.read_bytes())) for file in done],
    }


def show_report(gathered: dict[str, Any], out: Path) -> None:
    """Print the tables and write all figures."""
    lines, figures = report(gathered, {name: keep for name, (_, keep) in VARIANTS.items()})
    (out / "results.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    for line in lines:
        say(line)


def len_cores() -> int:
    """Return the number of processor cores."""
    return max(1, int(cores()))


def numbers(text: str) -> list[int]:
    """Read numbers with commas between them."""
    return [int(number) for number in text.split(",")]


def conditions(text: str) -> list[str]:
    """Read names of conditions with commas between them."""
    names = text.split(",")
    if unknown := [name for name in names if name not in CONDITIONS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]}: expected {', '.join(CONDITIONS)}")
    return names


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
