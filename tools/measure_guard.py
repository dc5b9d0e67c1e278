"""Measure the guard on translations: false alarms on correct pairs, detection of wrong ones.

    python tools/measure_guard.py newstest2014.en-de.tsv.xz val.en,val.de
    python tools/measure_guard.py --run runs/multi30k val.en,val.de

A file is a TSV of two columns, or two files with a comma between; their names end with the
languages. The first table has the share of reference translations that are flagged, the second the
share of injected failures (tests/support/injected_failures.py) with the right flag and with any,
by length of the source in words. --run adds the mean log-probability per token of the run's outputs
and of references, of the references of other sentences, and the share below the threshold; then the
share of its outputs with each flag.
"""

import argparse
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np

from transduce import Translator
from transduce.text.corpora import CorpusText
from transduce.text.languages import guess_languages
from transduce.text.reading import read_pairs
from transduce.translation.guard import KINDS, check
from transduce.translation.guard.checking import MIN_CONFIDENCE

# The failures are those of the tests.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from injected_failures import MAKERS, UNRELATED, injected_failures

Pairs = list[tuple[str, str]]
LENGTHS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, 10_000))  # words of a source


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("texts", nargs="+", help="TSV, or SOURCE,TARGET")
    parser.add_argument("--run", help="a trained run, to measure confidence")
    parser.add_argument("--examples", metavar="KIND", help="show the false alarms of a kind")
    options = parser.parse_args()
    texts = {text: (pairs_of(text), languages_of(text)) for text in options.texts}
    if options.run:
        print_confidence(options.run, texts)
        return
    print_false_alarms(texts, options.examples)
    for text, (pairs, languages) in texts.items():
        print_detection(text, pairs, languages)


def languages_of(text: str) -> tuple[str, str]:
    """Return the languages that the file names end with."""
    return guess_languages(*CorpusText.parse(text).files)


def pairs_of(text: str) -> Pairs:
    """Return the pairs of a TSV or of two files; those with a blank side are left out."""
    pairs = read_pairs(*CorpusText.parse(text).files)
    return [
        (left.strip(), right.strip()) for left, right in pairs if left.strip() and right.strip()
    ]


def means(translator: Translator, sources: list[str], outputs: list[str]) -> list[float]:
    """Return the mean log-probability per token of given outputs."""
    scored = translator.score(list(zip(sources, outputs, strict=True)))
    return [output.log_probability / (len(output.tokens) + 1) for output in scored]


def print_false_alarms(
    texts: dict[str, tuple[Pairs, tuple[str, str]]], examples: str | None
) -> None:
    """Print the share of correct pairs with each flag, and the time of a check."""
    show("correct pairs flagged, %")
    columns = [kind for kind in KINDS if kind != "confidence"]
    show(f"{'text':32}{'pairs':>7}" + "".join(f"{name:>12}" for name in [*columns, "any", "µs"]))
    for text, (pairs, languages) in texts.items():
        start = time.process_time()
        flags = [check(*pair, log_probability=0.0, tokens=0, languages=languages) for pair in pairs]
        seconds = time.process_time() - start
        counts = Counter(flag.kind for flag in chain.from_iterable(flags))
        shares = [*(counts[kind] for kind in columns), sum(map(bool, flags))]
        row = "".join(f"{100 * count / len(pairs):12.2f}" for count in shares)
        show(f"{short(text):32}{len(pairs):7}{row}{seconds / len(pairs) * 1e6:12.1f}")
        for pair, found in zip(pairs, flags, strict=True):
            for flag in found:
                if flag.kind == examples:
                    show(f"    {flag.detail}\n        {pair[0]}\n        {pair[1]}")


def print_detection(text: str, pairs: Pairs, languages: tuple[str, str]) -> None:
    """Print the share of injected failures with the right flag, then with any."""
    right: Counter[tuple[str, int]] = Counter()
    flagged: Counter[tuple[str, int]] = Counter()
    total: Counter[tuple[str, int]] = Counter()
    for failure in injected_failures(pairs):
        flags = check(
            failure.source, failure.output, log_probability=0.0, tokens=0, languages=languages
        )
        length = len(failure.source.split())
        bucket = next(i for i, (_, last) in enumerate(LENGTHS) if length <= last)
        for key in ((failure.name, bucket), (failure.name, -1)):
            total[key] += 1
            flagged[key] += bool(flags)
            right[key] += any(flag.kind in failure.kinds for flag in flags)
    show(f"\n{short(text)}: failures with the right flag / with any, %; by words of the source")
    heads = ["all", *(f"{first}-{last}" for first, last in LENGTHS[:-1]), f"over {LENGTHS[-2][1]}"]
    show(f"{'failure':22}{'number':>7}" + "".join(f"{head:>14}" for head in heads))
    for name in [*MAKERS, UNRELATED]:
        keys = [(name, bucket) for bucket in (-1, *range(len(LENGTHS)))]
        cells = [
            f"{100 * right[key] / total[key]:.1f} / {100 * flagged[key] / total[key]:.1f}"
            if total[key]
            else "-"
            for key in keys
        ]
        show(f"{name:22}{total[name, -1]:7}" + "".join(f"{cell:>14}" for cell in cells))


def print_confidence(run: str, texts: dict[str, tuple[Pairs, tuple[str, str]]]) -> None:
    """Print quantiles of the mean log-probability per token."""
    translator = Translator.load(run)
    heads = f"     1%     5%    50%    95%  < {MIN_CONFIDENCE}"
    show(f"{'mean log-probability per token':48}{heads}")
    for text, (pairs, languages) in texts.items():
        sources, references = map(list, zip(*pairs, strict=True))
        outputs = translator.translate(sources, split=False)
        others = references[len(references) // 2 :] + references[: len(references) // 2]
        rows = {
            "outputs": [output.log_probability / (len(output.tokens) + 1) for output in outputs],
            "references": means(translator, sources, references),
            "references of other sentences": means(translator, sources, others),
        }
        for name, values in rows.items():
            quantiles = "".join(f"{q:7.2f}" for q in np.quantile(values, [0.01, 0.05, 0.5, 0.95]))
            below = np.mean(np.array(values) < MIN_CONFIDENCE)
            show(f"{short(text) + ': ' + name:48}{quantiles}{below:8.1%}")
        counts = Counter(
            flag.kind
            for output in outputs
            for flag in check(
                output.source,
                output.text,
                log_probability=output.log_probability,
                tokens=len(output.tokens) + 1,
                languages=languages,
            )
        )
        shares = ", ".join(f"{kind} {counts[kind] / len(outputs):.1%}" for kind in KINDS)
        show(f"{short(text)}: outputs flagged: {shares}")


def show(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def short(text: str) -> str:
    """Return the names of files without folders."""
    return ",".join(Path(name).name for name in text.split(","))


if __name__ == "__main__":
    main()
