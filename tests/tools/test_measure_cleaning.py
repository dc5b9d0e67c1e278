"""The measurement plants dirt of every kind, and counts what the rules find."""

import random
import re
from pathlib import Path

import pytest
from conftest import tiny_pairs

import measure_cleaning


def test_dirt_of_every_kind_is_planted_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(1)
    pairs = [
        (
            f"{source} It was built in {year} and it is a very old house of the town, {name}.",
            f"{target} Es wurde {year} gebaut und ist ein sehr altes schönes Haus, {name}.",
        )
        for source, target in tiny_pairs(400)
        for year, name in [(dice.randrange(1200, 2000), "".join(dice.choices("abcdefgh", k=9)))]
    ]
    text, foreign = tmp_path / "t.en-de.tsv", tmp_path / "f.en-fr.tsv"
    text.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    french = "La maison est très vieille et elle se trouve dans une ville que nous ne voyons pas."
    foreign.write_text("".join(f"x\t{french[:n]}\n" for n in range(60, 84)), encoding="utf-8")
    measure_cleaning.main([str(text), "--foreign", str(foreign), "--workers", "1"])
    out = capsys.readouterr().out
    for kind in measure_cleaning.PLANTERS:
        assert re.search(rf"^\| {kind} \| [34] \| 100.0% ", out, re.MULTILINE), out
    assert "clean pairs removed: 0 of 362" in out
    assert "pairs for each second of a core" in out
