"""`transduce translate`: lines in, lines out, scores, sampling, prefixes."""

import re
import subprocess
from pathlib import Path

import pytest
from command_helpers import SENTENCES, lines_of, numbered
from conftest import (
    COMMAND,
    CommandLine,
    environment,
    tiny_pairs,
    write_pairs,
)

from transduce.translation.translator import Translator


def test_line_n_of_the_output_translates_line_n_of_the_input(
    cli: CommandLine, tiny_run: Path
) -> None:
    lines = [SENTENCES[2], "", SENTENCES[0], "   ", *SENTENCES, ""]
    command: list[str | Path] = ["translate", tiny_run, "--nbest", "1", "--quantize", "none"]
    together = cli(*command, input="\n".join(lines) + "\n")
    assert together.status == 0
    rows = numbered(together.stdout)
    assert [number for number, _, _ in rows] == list(range(1, len(lines) + 1))
    scores: dict[str, float] = {}
    for line, (_, score, text) in zip(lines, rows, strict=True):
        if not line.strip():
            assert (score, text) == (0.0, "")
        else:
            ((_, expected, same),) = numbered(cli(*command, input=line).stdout)
            assert score == pytest.approx(expected, abs=2e-4)
            assert text == same
            scores[line] = score
    assert len(set(scores.values())) == len(SENTENCES)  # or the order would not be seen


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", 0), ("\n", 1), ("a dog", 1), ("a dog\n\n", 2), ("\na dog", 2), ("a\r\ndog\r\n", 2)],
)
def test_output_has_as_many_lines_as_input(
    text: str, lines: int, cli: CommandLine, tiny_run: Path
) -> None:
    result = cli("translate", tiny_run, "--beam", "1", input=text)
    assert result.status == 0
    assert result.stdout.count("\n") == lines
    assert not result.stdout or result.stdout.endswith("\n")
    assert re.fullmatch(r"engine: .+\n", result.stderr)


def test_a_file_is_translated_as_the_same_text_through_a_pipe(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "text.en"
    lines = [*SENTENCES[:2], "", *SENTENCES[2:], " "]
    path.write_text("\n".join(lines), encoding="utf-8")
    command: list[str | Path] = ["translate", tiny_run, "--quantize", "none"]
    piped = cli(*command, input=path.read_bytes())
    assert cli(*command, path).stdout == piped.stdout
    assert cli(*command, "-", "--batch", "1", input=path.read_bytes()) == piped
    translator = Translator.load(tiny_run, quantize="none")
    expected = [translation.text for translation in translator.translate(lines)]
    assert (expected[2], expected[-1]) == ("", "")
    assert lines_of(piped.stdout) == expected


def test_nbest_lines_have_a_line_number_and_a_score(cli: CommandLine, tiny_run: Path) -> None:
    text = f"{SENTENCES[0]}\n\n{SENTENCES[1]}\n"
    result = cli("translate", tiny_run, "--nbest", "3", "--beam", "5", input=text)
    assert all(
        re.fullmatch(r"\d+\t-?\d+\.\d{4}\t[^\t\n]*", line) for line in lines_of(result.stdout)
    )
    rows = numbered(result.stdout)
    assert [number for number, _, _ in rows] == [1, 1, 1, 2, 3, 3, 3]
    for number in (1, 3):
        scores = [score for other, score, _ in rows if other == number]
        assert scores == sorted(scores, reverse=True)
        assert len({text for other, _, text in rows if other == number}) > 1
    narrow = cli("translate", tiny_run, "--nbest", "1", "--beam", "1", input=text)
    assert numbered(narrow.stdout)[0][1] <= rows[0][1]


def test_alpha_changes_the_score(cli: CommandLine, tiny_run: Path) -> None:
    best = [
        numbered(
            cli("translate", tiny_run, "--nbest", "1", "--alpha", alpha, input=SENTENCES[0]).stdout
        )[0][1]
        for alpha in ("0", "0.6", "1")
    ]
    assert best[0] < best[1] < best[2]  # a log-probability over a larger and larger penalty


def test_given_translations_are_scored_line_by_line(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    source, target = write_pairs(tmp_path, "given", [*tiny_pairs(5), ("", ""), ("a dog", "")])
    result = cli("translate", tiny_run, source, "--given", target)
    assert result.status == 0, result.stderr
    rows = [line.split("\t") for line in lines_of(result.stdout)]
    targets = target.read_text(encoding="utf-8").split("\n")[:-1]
    assert [text for _, text in rows] == targets
    pairs = list(zip(source.read_text(encoding="utf-8").split("\n")[:-1], targets, strict=True))
    expected = [scored.score for scored in Translator.load(tiny_run).score(pairs)]
    assert [float(score) for score, _ in rows] == pytest.approx(expected, abs=1e-4)
    assert len({score for score, _ in rows}) == len(rows)
    target.write_text("Hund\n", encoding="utf-8")
    assert "has 7 lines but " in cli("translate", tiny_run, source, "--given", target).error


def test_samples_depend_on_the_seed_alone(cli: CommandLine, tiny_run: Path) -> None:
    def drawn(*more: str) -> str:
        result = cli("translate", tiny_run, "--sample", *more, input="\n".join(SENTENCES[:2] * 2))
        assert result.status == 0, result.stderr
        return result.stdout

    first = drawn("--seed", "3")
    assert drawn("--seed", "3", "--batch", "1") == first
    assert drawn("--seed", "4") != first
    assert len(set(lines_of(first))) == 4  # equal sources, but draws of their own
    greedy = cli("translate", tiny_run, "--beam", "1", input="\n".join(SENTENCES[:2] * 2)).stdout
    assert drawn("--top-k", "1") == greedy
    assert drawn("--seed", "3", "--temperature", "0.001") == greedy


def test_translations_begin_with_the_prefix(cli: CommandLine, tiny_run: Path) -> None:
    result = cli(
        "translate", tiny_run, "--prefix", "jeder Vogel", input="\n".join(SENTENCES) + "\n\n"
    )
    *translated, blank = lines_of(result.stdout)
    assert all(line.startswith("jeder Vogel") for line in translated)
    assert blank == ""


def test_a_closed_pipe_is_not_an_error(tiny_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    command = [*COMMAND, "translate", str(tiny_run), str(path), "--beam", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        stderr = process.stderr.read()
    assert process.returncode in (0, 1)
    for word in ("Traceback", "Exception", "Error", "error"):
        assert word not in stderr


def test_a_probability_mass_that_float32_rounds_to_0_leaves_the_likeliest_word(
    cli: CommandLine, tiny_run: Path
) -> None:
    drawn, greedy = (
        cli("translate", tiny_run, "--engine", "torch", *arguments, input="a dog\n").stdout
        for arguments in (["--sample", "--top-p", "1e-320"], ["--beam", "1"])
    )
    assert drawn == greedy


def test_an_interrupted_translation_shows_no_traceback(
    cli: CommandLine, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("transduce.translation.translator.Translator.stream", interrupt)
    result = cli("translate", tiny_run, "--engine", "torch", input="a dog\n")
    assert result.status == 130
    assert "Traceback" not in result.stderr
