"""The demo runs from nothing to translations, and again without harm."""

from pathlib import Path

from conftest import CommandLine

from transduce.runs.folder import checkpoints


def test_the_demo_trains_translates_and_shows(cli: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    arguments = ("demo", "--out", out, "--time", "1s", "--pairs", "1000", "--test", "12")
    done = cli(*arguments)
    assert done.status == 0, done.stderr
    assert "on 12 unseen sentences:" in done.stdout
    assert "BLEU = " in done.stdout
    assert "nrefs:1" in done.stdout
    assert done.stdout.count("  en   ") == 8
    assert f"transduce translate {out}" in done.stderr
    for part, lines in (("train", 1000), ("valid", 12), ("test", 12)):
        for language in ("en", "de"):
            path = tmp_path / "demo-data" / f"{part}.{language}"
            assert len(path.read_text(encoding="utf-8").splitlines()) == lines
    steps = [checkpoint.step for checkpoint in checkpoints(out)]
    again = cli(*arguments)
    assert again.status == 0, again.stderr
    assert "has finished" in again.stderr
    assert again.stdout == done.stdout
    assert [checkpoint.step for checkpoint in checkpoints(out)] == steps
