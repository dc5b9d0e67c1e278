"""`transduce look`: tables, pictures, the page, and heads with a job."""

import re
import shlex
from pathlib import Path

import pytest
from conftest import CommandLine
from matplotlib.image import imread

SENTENCE = "the dog sees a tree."


def test_the_command_prints_what_each_word_attends_to(cli: CommandLine, tiny_run: Path) -> None:
    result = cli("look", tiny_run, SENTENCE, "--target", "der Hund sieht Bäume.")
    assert result.status == 0
    first, names, _, *rows, which = result.stdout.splitlines()
    assert first == "der Hund sieht Bäume."
    assert re.split("  +", names) == [
        *("to write", "probability", "it looks most at", "share", "then at", "share")
    ]
    assert [row.split()[0] for row in rows] == ["der", "Hund", "sieht", "Bäume", ".", "</s>"]
    assert which.strip() == "cross attention, layer 1 of 1, mean of all 2 heads"
    assert all(re.search(r"\d+%\s+\S+\s+\d+%\s*$", row) for row in rows)
    assert "--out attention.png" in result.stderr
    encoder = cli("look", tiny_run, SENTENCE, "--kind", "encoder", "--head", "2").stdout
    assert "encoder attention, layer 1 of 1, head 2 of 2" in encoder
    assert "sees" in encoder


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ([], "grid.svg"),
        (["--layer", "1", "--kind", "encoder"], "map.png"),
        (["--head", "1", "--head", "2", "--words"], "new/lines.pdf"),
    ],
)
def test_the_command_draws_each_view(
    options: list[str], name: str, cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    result = cli("look", tiny_run, SENTENCE, *options, "--out", tmp_path / name)
    assert (result.status, result.stdout) == (0, "")
    assert result.stderr == f"wrote {tmp_path / name}\n"
    assert (tmp_path / name).stat().st_size > 1000
    if name.endswith("png"):
        assert imread(tmp_path / name).shape[0] > 300


def test_the_command_writes_the_explorer_page(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    result = cli("look", tiny_run, SENTENCE, "-o", tmp_path / "page.html")
    assert result.stderr == f"wrote {tmp_path / 'page.html'}\n"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>What tiny attends to" in page
    assert SENTENCE in page


def test_the_command_lists_heads_and_the_command_to_draw_one(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    text = tmp_path / "some text.en"
    text.write_text("\n".join([SENTENCE, "", "it's a dog!", "z " * 200]), encoding="utf-8")
    result = cli("look", tiny_run, "--find", text)
    assert result.status == 0
    names, _, *rows = result.stdout.splitlines()
    assert re.split("  +", names) == ["looks at", "kind", "layer", "head", "share", "by chance"]
    assert rows
    for row in rows:
        share, chance = re.findall(r"(\d+)%", row)
        assert int(share) >= 2 * int(chance) - 1
    summary, command = result.stderr.splitlines()
    assert summary.startswith("over 2 sentences; ")
    assert command.startswith(f"transduce look {tiny_run} ")
    arguments = shlex.split(command)[1:-1]
    assert cli(*arguments, tmp_path / "head.svg").stderr.startswith("wrote ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["look", "RUN"], 'expected a sentence, such as "Two dogs run.", or --find FILE'),
        (["look", "RUN", "yes", "--find", "text"], "or --find FILE"),
        (["look", "RUN", " "], "the sentence is empty: expected some words"),
        (["look", "RUN", "yes", "--target", ""], "the given translation is empty"),
        (["look", "RUN", "z " * 200], "subwords, including </s>: at most 128 can be inspected"),
        (["look", "RUN", "yes", "-o", "a.jpeg"], "a.jpeg: expected a name that ends in .svg, .png"),
        (["look", "RUN", "yes", "--view", "map"], "are for pictures: add --out"),
        (["look", "RUN", "yes", "--kind", "crosss"], "--kind crosss: expected encoder, decoder, c"),
        (["look", "RUN", "yes", "--kind", "crosss"], "Did you mean cross?"),
        (["look", "RUN", "yes", "--layer", "0"], "--layer 0: the decoder has layers 1 to 1"),
        (
            ["look", "RUN", "yes", "--head", "3", "-o", "a.svg"],
            "--head 3: a layer has heads 1 to 2",
        ),
        (["look", "RUN", "yes", "--view", "mat", "-o", "a.svg"], "--view mat: expected lines, map"),
        (
            ["look", "RUN", "yes", "--view", "grid", "--head", "1", "-o", "a.svg"],
            "leave --layer and",
        ),
        (
            ["look", "RUN", "yes", "--view", "map", "--word", "a", "-o", "a.svg"],
            "go with --view map",
        ),
        (
            [
                "look",
                "RUN",
                "every dog",
                *["--kind", "encoder", "--words", "--word", "dogs", "-o", "a.svg"],
            ],
            "--word dogs: it is not among every dog </s>. Did you mean dog?",
        ),
        (
            ["look", "RUN", "yes", "--head", "1", "-o", "a.html"],
            "a page shows every layer and head",
        ),
        (["look", "RUN", "--find", "text", "--layer", "1"], "--find searches all layers and heads"),
        (["look", "RUN", "--find", "nothing"], "nothing"),
        (["look", "RUN", "--find", "blank"], "blank has no sentence that can be inspected"),
        (["look", "none", "yes"], "there is no run folder none"),
        (["look", "RUN", "text"], "text is a file: expected a sentence, such as"),
        (
            ["look", "RUN", "tset.en"],
            "tset.en is not a sentence, and no such file exists: exp",
        ),
    ],
)
def test_bad_arguments_of_look_are_refused_in_one_sentence(
    arguments: list[str],
    expected: str,
    cli: CommandLine,
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("yes\n")
    (tmp_path / "blank").write_text("\n\n")
    result = cli(*(str(tiny_run) if argument == "RUN" else argument for argument in arguments))
    assert expected in result.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blank", "text"]
