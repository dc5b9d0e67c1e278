"""Measure how often the language of a line is identified, by its length and the candidates.

python tools/measure_detection.py en=test.en de=test.de fr=test.fr --further es,it,nl,pt,pl,cs,da
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from transduce.text.identification import identify_among
from transduce.text.reading import read_lines

WORDS = (None, 5, 3, 1)  # of a line that are read; None: all


def measure(
    texts: Mapping[str, Sequence[str]], further: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the share of lines whose language is the first guess."""
    rows = []
    for candidates in ([*texts], [*texts, *further]) if further else ([*texts],):
        for words in WORDS:
            right, start = 0, time.process_time()
            for language, lines in texts.items():
                for line in lines:
                    text = " ".join(line.split()[:words])
                    guesses = identify_among(text, candidates)
                    right += bool(guesses) and guesses[0].language == language
            count = sum(map(len, texts.values()))
            seconds = time.process_time() - start
            rows.append(
                {
                    "candidates": len(candidates),
                    "words": words,
                    "lines": count,
                    "right": round(right / count, 4),
                    "lines_per_second": round(count / seconds),
                }
            )
    return rows


def main() -> None:
    """Print a JSON object for each length and set of candidates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("texts", nargs="+", metavar="LANGUAGE=FILE")
    parser.add_argument("--further", default="", help="further languages, such as es,it")
    arguments = parser.parse_args()
    texts = {}
    for given in arguments.texts:
        language, _, path = given.partition("=")
        texts[language] = [line for line in read_lines(path) if line.strip()]
    identify_among("", texts)  # loads the library
    for row in measure(texts, [code for code in arguments.further.split(",") if code]):
        print(json.dumps(row))  # noqa: T201


if __name__ == "__main__":
    main()
