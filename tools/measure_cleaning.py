"""Measure the rules that clean parallel text: dirt found, and clean pairs removed.

    python tools/measure_cleaning.py docs.en-de.tsv.xz --foreign newstest2013.en-fr.tsv.xz

Dirt of ten kinds replaces a tenth of the pairs, evenly over the text. Before, pairs that have the
same letters as an earlier one are left out, so that repeats in the text itself are not counted as
clean. --foreign is a text whose target is in a third language. The speed is that of all rules; for
comparison the same pairs are read and written without them.
"""

import argparse
import itertools
import random
import re
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from transduce.cleaning.checking import Settings, check_pairs
from transduce.cleaning.limits import RULES, Limits
from transduce.cleaning.rules import PairText
from transduce.text.languages import guess_languages
from transduce.text.reading import read_pairs

Pair = tuple[str, str]
Planter = Callable[[str, str, random.Random], Pair | None]

NUMBER = re.compile(r"(?<![\d.,:/-])\d{2,6}(?![\d.,:/-])")
CYRILLIC = str.maketrans("abcdefghiklmnoprstuvyzäöü", "абкдефгхиклмнопрстувызэёю")
FOOTERS = (
    "Alle Rechte vorbehalten. Nachdruck nur mit Genehmigung.",
    "Bitte aktivieren Sie JavaScript, um diese Seite zu nutzen.",
    "Diese Seite verwendet Cookies. Mehr dazu in der Erklärung zum Datenschutz.",
)
MENU = "Startseite | Produkte | Preise | Kontakt | Impressum"


class Text(NamedTuple):
    """Pairs, and the kind of dirt that each of them is; "" for clean ones."""

    pairs: list[Pair]
    kinds: list[str]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("text", help="one file with both sides; its name ends with the languages")
    parser.add_argument(
        "--foreign", required=True, help="a text whose target is in a third language"
    )
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    languages = guess_languages(options.text, None)
    text = plant(
        list(itertools.islice(different(read_pairs(options.text, None)), options.pairs)),
        [target for _, target in read_pairs(options.foreign, None)],
    )
    settings = Settings(tuple(RULES), Limits(), languages, library=True)
    found: list[str] = []
    begin, busy = time.perf_counter(), cpu_seconds()
    check_pairs(
        text.pairs,
        settings,
        workers=options.workers,
        write=lambda _, names, first: found.extend(names),
    )
    seconds, busy = time.perf_counter() - begin, cpu_seconds() - busy
    show_found(text, found)
    copied = seconds_to_copy(text.pairs)
    typer.echo(
        f"\n{len(found):,} pairs in {seconds:.1f} s with {options.workers} processes, "
        f"{busy:.1f} s of CPU time: {len(found) / busy:,.0f} pairs for each second of a core\n"
        f"reading and writing them without checks takes {copied:.2f} s of CPU time"
    )


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that have ended."""
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usage)


def different(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield the pairs whose letters are not those of an earlier pair."""
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        letters = PairText.of(*pair).letters
        if letters not in seen and all(letters):
            seen.add(letters)
            yield pair


def plant(pairs: Sequence[Pair], foreign: Sequence[str], seed: int = 1) -> Text:
    """Replace a tenth of the pairs by dirt, one kind after the other."""
    dice = random.Random(seed)
    planters = {**PLANTERS, "language": in_language(foreign)}
    result, kinds, names = list(pairs), [""] * len(pairs), itertools.cycle(planters)
    for place in range(len(pairs) // 20, len(pairs), 10):
        kind = next(names)
        if kind == "duplicate":
            dirty: Pair | None = pairs[clean_before(place, dice)]
        elif kind == "near-duplicate":
            dirty = nearly_same(*pairs[clean_before(place, dice)], dice)
        else:
            offers = (planters[kind](*pairs[dice.randrange(len(pairs))], dice) for _ in range(999))
            dirty = next(filter(None, offers), None)
        if dirty is not None:
            result[place], kinds[place] = dirty, kind
    return Text(result, kinds)


def clean_before(place: int, dice: random.Random) -> int:
    """Return the place of an earlier pair that stays as it is."""
    return place - 1 - 10 * dice.randrange(place // 10) if place > 10 else 0


def damaged(source: str, target: str, _: random.Random) -> Pair | None:
    """Read UTF-8 as Windows-1252."""
    try:
        wrong = target.encode().decode("cp1252")
    except UnicodeDecodeError:
        return None
    return (source, wrong) if wrong != target else None


def cut(source: str, target: str, _: random.Random) -> Pair | None:
    """Keep only the first quarter of the target."""
    return (source, target[: len(target) // 4]) if len(target) > 80 else None


def copied(source: str, _: str, dice: random.Random) -> Pair | None:
    """Copy the source to the target, at times with another end."""
    words = sum(word.islower() for word in source.split())
    return (source, source + dice.choice(["", " ", " ."])) if words > 4 else None


def in_language(texts: Sequence[str]) -> Planter:
    """Return a planter: a target in a third language, about as long as the right one."""
    by_length = sorted(filter(None, texts), key=len)

    def planter(source: str, target: str, dice: random.Random) -> Pair | None:
        near = [text for text in dice.sample(by_length, 20) if 0.7 < len(text) / len(target) < 1.4]
        return (source, near[0]) if near else None

    return planter


def in_cyrillic(source: str, target: str, _: random.Random) -> Pair | None:
    """Write the target in Cyrillic letters."""
    return (source, target.lower().translate(CYRILLIC)) if len(target) > 20 else None


def other_number(source: str, target: str, dice: random.Random) -> Pair | None:
    """Change a number of the target that the source has too."""
    numbers = [number for number in NUMBER.findall(target) if number in NUMBER.findall(source)]
    if not numbers:
        return None
    number = dice.choice(numbers)
    other = str(int(number) + dice.choice([-3, -2, 2, 3, 10]))
    return source, re.sub(rf"(?<!\d){number}(?!\d)", other, target)


def with_markup(source: str, target: str, dice: random.Random) -> Pair | None:
    """Add tags or entities to one side, or use menus."""
    if len(source) < 30:
        return None
    choices = (
        (source, f'<a href="#top" class="x">{target}</a>'),
        (f"{source}&nbsp;&raquo;", target),
        ("Home | Products | Prices | Contact | Imprint", f"{MENU} | {dice.randrange(999)}"),
    )
    return dice.choice(choices)


def nearly_same(source: str, target: str, dice: random.Random) -> Pair:
    """Change case, punctuation or white space."""
    change = dice.choice(
        (str.upper, lambda text: f"{text} !", lambda text: text.replace(" ", "  "))
    )
    return change(source), change(target)


def footer(source: str, _: str, dice: random.Random) -> Pair | None:
    """Use a text that stands below every page."""
    return source, dice.choice(FOOTERS)


PLANTERS: dict[str, Planter] = {
    "encoding": damaged,
    "ratio": cut,
    "copy": copied,
    "language": in_cyrillic,  # replaced in `plant`
    "script": in_cyrillic,
    "numbers": other_number,
    "markup": with_markup,
    "duplicate": nearly_same,
    "near-duplicate": nearly_same,
    "boilerplate": footer,
}


def show_found(text: Text, found: Sequence[str]) -> None:
    """Print the share of each kind that was found, and the clean pairs that were removed."""
    both = list(zip(text.kinds, found, strict=True))
    typer.echo("| dirt | pairs | found | by its rule |\n|---|--:|--:|--:|")
    for kind in PLANTERS:
        rules = [rule for planted, rule in both if planted == kind]
        if rules:
            shares = sum(map(bool, rules)) / len(rules), rules.count(kind) / len(rules)
            typer.echo(f"| {kind} | {len(rules):,} | {shares[0]:.1%} | {shares[1]:.1%} |")
    planted = [rule for kind, rule in both if kind]
    clean = [rule for kind, rule in both if not kind]
    typer.echo(f"| all | {len(planted):,} | {sum(map(bool, planted)) / len(planted):.1%} | |")
    removed = Counter(filter(None, clean))
    typer.echo(
        f"\nclean pairs removed: {removed.total():,} of {len(clean):,} "
        f"({removed.total() / len(clean):.2%})"
    )
    typer.echo(", ".join(f"{rule} {count}" for rule, count in removed.most_common()))


def seconds_to_copy(pairs: Sequence[Pair]) -> float:
    """Return the CPU time to write pairs to a file, read them and write them again."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "a.tsv"), Path(folder, "b.tsv")
        lines = (f"{source.strip()}\t{target.strip()}\n" for source, target in pairs)
        first.write_text("".join(lines), encoding="utf-8")
        begin = cpu_seconds()
        with second.open("w", encoding="utf-8") as file:
            for source, target in read_pairs(first, None):
                file.write(f"{source}\t{target}\n")
        return cpu_seconds() - begin


if __name__ == "__main__":
    main()
