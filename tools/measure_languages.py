"""Compare one model of several languages with single models, and measure zero-shot translation.

    PYTHONPATH=src python tools/measure_languages.py data/train data/val data/test --out results

The arguments are what the names of line-aligned texts begin with: data/train.en, data/train.de.xz
and so on, in all --languages. For each seed it trains

    single   a model for each direction, for --seconds each
    joint    one model for all directions, for as many seconds as all single models together
    pivot    one model for the directions from and to the first language, for as many seconds as
             single models of these together

All have the same settings and vocabulary size, so the same number of parameters, except for a token
per target language. Time is that of updates, without validation and saving. --steps N counts
updates instead of seconds, so that other work on the machine does not matter. The other directions
of `pivot` are zero-shot; they are also translated in two steps, through the first language.

The mean difference of joint and single models has a 95% interval from the paired bootstrap over the
lines of the test, which all directions share, with the mean over the seeds.

--work keeps trained models and their outputs: the same command again continues where it was
stopped. --kinds single,pivot trains some of the models only, so that two processes can share the
work; the command without it then makes the tables. --out gets the outputs (outputs.json) and the
figures (results.json), which are printed.
"""

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transduce import Translator
from transduce.evaluation.bootstrap import bleu_statistics, bootstrap_samples, percentile_interval
from transduce.runs.arrays import count_values
from transduce.system.progress import Progress, Silent, console_progress
from transduce.text.corpora import CorpusText
from transduce.text.reading import read_lines
from transduce.training.train import train

Direction = tuple[str, str]
Outputs = dict[str, list[str]]  # by direction, such as en-de
SINGLE, JOINT, PIVOT = KINDS = ("single", "joint", "pivot")


@dataclass(frozen=True)
class Texts:
    """The line-aligned texts of one split."""

    stem: str

    def path(self, language: str) -> Path:
        """Return the file in a language, perhaps compressed."""
        stem = Path(self.stem)
        found = [stem.with_name(f"{stem.name}.{language}{end}") for end in ("", ".xz", ".gz")]
        for path in found:
            if path.is_file():
                return path
        raise SystemExit(f"there is no {found[0]}, nor is it compressed (.xz, .gz)")

    def corpus(self, pair: Direction, valid: "Texts") -> CorpusText:
        """Return the text as a corpus to train on."""
        source, target = map(self.path, pair)
        tested = valid.path(pair[0]), valid.path(pair[1])
        return CorpusText(source, target, valid=tested, languages="-".join(pair))

    def lines(self, language: str, most: int = 0) -> list[str]:
        """Return the lines in a language, or the first ones."""
        lines = list(read_lines(self.path(language)))
        return lines[: most or len(lines)]


@dataclass(frozen=True)
class Model:
    """A model to train: its directions, one after another in the token files."""

    kind: str
    directions: tuple[Direction, ...]
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        pair = f"-{'-'.join(self.directions[0])}" if self.kind == SINGLE else ""
        return f"{self.kind}{pair}-{self.seed}"


def models_of(languages: Sequence[str], seeds: Sequence[int]) -> list[Model]:
    """Return all models to train."""
    directions = list(itertools.permutations(languages, 2))
    first = tuple(pair for pair in directions if languages[0] in pair)
    models = []
    for seed in seeds:
        models += [Model(SINGLE, (pair,), seed) for pair in directions]
        models.append(Model(JOINT, tuple(directions), seed))
        if len(languages) > 2:
            models.append(Model(PIVOT, first, seed))
    return models


def main(arguments: list[str] | None = None) -> None:
    """Train and translate what is not done yet; print the tables."""
    options = make_parser().parse_args(arguments)
    check_options(options)
    progress = console_progress()
    models = models_of(options.languages, options.seeds)
    chosen = [model for model in models if model.kind in options.kinds]
    results = [measure(model, options, progress) for model in chosen]
    if len(chosen) < len(models):
        return
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "outputs.json").write_text(json.dumps(results, ensure_ascii=False))
    report = make_report(results, options)
    (options.out / "results.json").write_text(json.dumps(report, indent=1))
    for line in table(report):
        print(line)  # noqa: T201


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    for name in ("train", "valid", "test"):
        parser.add_argument(name, type=Texts, help="the names of the files up to the language")
    parser.add_argument("--out", type=Path, default=Path("languages-results"))
    parser.add_argument("--work", type=Path, default=Path("languages-work"))
    parser.add_argument("--languages", type=lambda text: text.split(","), default="en,de,fr")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--seconds", type=float, default=60, help="for each single model")
    parser.add_argument("--steps", type=int, help="for each single model, instead of --seconds")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS)
    parser.add_argument("--batch", type=int, default=8000, help="tokens per update")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings")
    parser.add_argument("--seeds", type=numbers, default=[1], help="1,2,3")
    parser.add_argument("--sentences", type=int, default=0, help="of the test; 0: all")
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--device", default="auto")
    return parser


def numbers(text: str) -> list[int]:
    """Parse 1,2,3."""
    return [int(number) for number in text.split(",")]


def check_options(options: argparse.Namespace) -> None:
    """Refuse missing texts, and a work folder of other options."""
    for texts in (options.train, options.valid, options.test):
        for language in options.languages:
            texts.path(language)
    if unknown := {*options.kinds} - {*KINDS}:
        raise SystemExit(f"--kinds {','.join(unknown)}: expected {', '.join(KINDS)}")
    skipped = ("out", "work", "seeds", "kinds", "samples", "device")
    shared = {name: str(value) for name, value in vars(options).items() if name not in skipped}
    file = options.work / "options.json"
    if not file.exists():
        options.work.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(shared))
    elif (before := json.loads(file.read_text())) != shared:
        raise SystemExit(f"{options.work} was made with {before}: choose another --work")


def measure(model: Model, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Train a model and translate the test in its directions; return what is stored of it."""
    file = options.work / f"{model.name}.json"
    if file.exists():
        stored: dict[str, Any] = json.loads(file.read_text())
        return stored
    start = time.monotonic()
    run = train(
        corpora=[options.train.corpus(pair, options.valid) for pair in model.directions],
        out=options.work / model.name,
        preset=options.preset,
        **budget(options, len(model.directions)),
        seed=model.seed,
        settings={
            "timed": "steps",
            "vocabulary": str(options.vocabulary),
            "batch_tokens": str(options.batch),
            "validate_bleu": "0",
            **dict(setting.split("=", 1) for setting in options.set),
        },
        device=options.device,
        progress=Silent(),
    )
    trained = time.monotonic() - start
    result = {
        "kind": model.kind,
        "seed": model.seed,
        "seconds": trained,
        "parameters": count_values(run / "model.safetensors"),
        "outputs": translate_all(model, run, options),
    }
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(result, ensure_ascii=False))
    partial.rename(file)
    progress.say(f"{model.name}: trained in {trained:.0f} s with preparation and validation")
    return result


def budget(options: argparse.Namespace, directions: int) -> dict[str, Any]:
    """Return how long a model of some directions is trained."""
    if options.steps:
        return {"steps": options.steps * directions}
    return {"seconds": options.seconds * directions}


def translate_all(model: Model, run: Path, options: argparse.Namespace) -> Outputs:
    """Translate the test in each direction; with `pivot`, in the others too, and in two steps."""
    translator = Translator.load(run, device=options.device)

    def translate(lines: Sequence[str], to: str) -> list[str]:
        chosen = translator.directed(to=to)
        return [t.text for t in chosen.translate(lines, split=False, beam=options.beam)]

    lines = {code: options.test.lines(code, options.sentences) for code in options.languages}
    outputs = {f"{source}-{to}": translate(lines[source], to) for source, to in model.directions}
    if model.kind == PIVOT:
        middle, *others = options.languages
        for source, to in itertools.permutations(others, 2):
            outputs[f"{source}-{to}"] = translate(lines[source], to)
            outputs[f"{source}-{middle}-{to}"] = translate(outputs[f"{source}-{middle}"], to)
    return outputs


def make_report(results: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Return BLEU by kind and direction, and the differences with their intervals."""
    statistics: dict[tuple[str, str], list[Any]] = {}
    for result in results:
        for direction, outputs in result["outputs"].items():
            to = direction.split("-")[-1]
            references = options.test.lines(to, options.sentences)
            scored = bleu_statistics(outputs, references, to)
            statistics.setdefault((result["kind"], direction), []).append(scored)
    directions = [direction for kind, direction in statistics if kind == SINGLE]
    others = [direction for kind, direction in statistics if kind == PIVOT]
    once = np.ones(len(options.test.lines(options.languages[0], options.sentences)), dtype=int)
    samples = list(bootstrap_samples(len(once), options.samples))

    def bleu(kind: str, direction: str, times: Any = once) -> float:
        return float(np.mean([each.score(times) for each in statistics[kind, direction]]))

    def difference(times: Any, chosen: Sequence[str]) -> float:
        return float(np.mean([bleu(JOINT, d, times) - bleu(SINGLE, d, times) for d in chosen]))

    compared = {direction: [direction] for direction in directions} | {"mean": directions}
    return {
        "seeds": len({result["seed"] for result in results}),
        "seconds": {
            kind: float(np.sum([r["seconds"] for r in results if r["kind"] == kind]))
            for kind in dict.fromkeys(result["kind"] for result in results)
        },
        "parameters": {result["kind"]: result["parameters"] for result in results},
        "bleu": {f"{kind} {direction}": bleu(kind, direction) for kind, direction in statistics},
        "differences": {
            name: [
                difference(once, chosen),
                *percentile_interval([difference(times, chosen) for times in samples]),
            ]
            for name, chosen in compared.items()
        },
        "zero-shot": [d for d in others if options.languages[0] not in d.split("-")],
    }


def table(report: dict[str, Any]) -> list[str]:
    """Return the lines of a table in Markdown."""
    bleu = report["bleu"]
    lines = ["| direction | single | joint | joint - single, 95% |", "|---|---|---|---|"]
    for name, (value, low, high) in report["differences"].items():
        scores = [f"{bleu[f'{kind} {name}']:.2f}" for kind in (SINGLE, JOINT) if name != "mean"]
        cells = scores or [
            f"{np.mean([v for k, v in bleu.items() if k.startswith(f'{kind} ')]):.2f}"
            for kind in (SINGLE, JOINT)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {value:+.2f} [{low:+.2f}, {high:+.2f}] |")
    for direction in report["zero-shot"]:
        source, to = direction.split("-")
        (steps,) = [
            name
            for name in bleu
            if name.startswith(f"{PIVOT} {source}-")
            and name.endswith(f"-{to}")
            and name.count("-") > 1
        ]
        lines.append(
            f"zero-shot {direction}: {bleu[f'{PIVOT} {direction}']:.2f}; in two steps "
            f"{bleu[steps]:.2f}; trained alone {bleu[f'{SINGLE} {direction}']:.2f}"
        )
    seconds = ", ".join(f"{kind} {value:,.0f} s" for kind, value in report["seconds"].items())
    sizes = ", ".join(f"{kind} {value:,}" for kind, value in report["parameters"].items())
    lines.append(f"training: {seconds}; parameters: {sizes}; seeds: {report['seeds']}")
    return lines


if __name__ == "__main__":
    main()
