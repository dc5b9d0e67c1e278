"""`transduce translate`: its options, alone and together, on the real command line."""

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transduce.translation.translator import Translator

TEXT = "the dog sees a man.  one bird!\n\nevery fish likes the tree today.\n"
LINES = TEXT.split("\n")[:-1]


def objects(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_json_has_one_object_per_line(cli: CommandLine, tiny_run: Path) -> None:
    found = objects(cli("translate", tiny_run, "--json", input=TEXT).stdout)
    assert [row["line"] for row in found] == [1, 2, 3]
    assert [row["source"] for row in found] == LINES
    texts = cli("translate", tiny_run, input=TEXT).stdout.split("\n")[:-1]
    assert [row["text"] for row in found] == texts
    expected = Translator.load(tiny_run).translate(LINES)
    for row, same in zip(found, expected, strict=True):
        assert row["tokens"] == list(same.tokens)
        assert row["score"] == pytest.approx(same.score, abs=1e-4)
        assert row["log_probability"] <= row["score"] <= 0
        assert not {"candidates", "alignment"} & row.keys()
    assert [row.get("parts", 1) for row in found] == [2, 1, 1]


def test_json_has_the_requested_fields(cli: CommandLine, tiny_run: Path) -> None:
    result = cli("translate", tiny_run, "--json", "--nbest", "2", "--align", "--split", input=TEXT)
    first, blank, last = objects(result.stdout)
    assert (first["parts"], len(first["candidates"]), len(blank["candidates"])) == (2, 2, 1)
    assert "parts" not in last
    for row in (first, last):
        for candidate in row["candidates"]:
            targets = [target for _, target in candidate["alignment"]]
            assert targets == list(range(len(candidate["text"].split())))
        assert row["candidates"][0].items() <= row.items()


def test_json_of_given_translations_has_their_scores(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "given.en", tmp_path / "given.de"
    source.write_text("a dog\nthe man\n", encoding="utf-8")
    target.write_text("ein Hund\nder Mann\n", encoding="utf-8")
    arguments = ("translate", tiny_run, source, "--given", target)
    plain = [line.split("\t") for line in cli(*arguments, "--align").stdout.splitlines()]
    found = objects(cli(*arguments, "--align", "--json").stdout)
    assert (
        [row["text"] for row in found]
        == [columns[1] for columns in plain]
        == ["ein Hund", "der Mann"]
    )
    for columns, row in zip(plain, found, strict=True):
        assert float(columns[0]) == pytest.approx(row["score"], abs=1e-4)
        assert columns[2] == " ".join(f"{s}-{t}" for s, t in row["alignment"])
        assert len(row["alignment"]) == 2


def test_json_escapes_unusual_line_separators(cli: CommandLine, tiny_run: Path) -> None:
    strange = "a\u2028b\u2029c\x85d\x0be\tf\x1cg"
    result = cli("translate", tiny_run, "--json", "--beam", "1", input=f"{strange}\nwörter\n")
    assert len(result.stdout.splitlines()) == 2
    assert [row["source"] for row in objects(result.stdout)] == [strange, "wörter"]
    assert "wörter" in result.stdout


@pytest.mark.parametrize("split", [(), ("--no-split",)])
def test_alignments_follow_the_text_after_a_tab(
    split: tuple[str, ...], cli: CommandLine, tiny_run: Path
) -> None:
    plain = cli("translate", tiny_run, *split, input=TEXT).stdout.split("\n")[:-1]
    rows = cli("translate", tiny_run, "--align", *split, input=TEXT).stdout.split("\n")[:-1]
    assert len(rows) == len(plain) == 3
    for source, text, row in zip(LINES, plain, rows, strict=True):
        assert row.startswith(f"{text}\t")
        links = [link.split("-") for link in row.removeprefix(f"{text}\t").split()]
        assert [int(target) for _, target in links] == list(range(len(text.split())))
        assert all(0 <= int(word) < len(source.split()) for word, _ in links)
    ranked = cli("translate", tiny_run, "--align", "--nbest", "2", *split, input=TEXT).stdout
    assert all(line.count("\t") == 3 for line in ranked.split("\n")[:-1])


def test_prefixes_are_applied_line_by_line(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "begins.de.gz"
    path.write_bytes(gzip.compress(b"jeder Vogel\nkein\n\n"))
    result = cli("translate", tiny_run, "--prefixes", path, input="a dog\n\none bird!\n")
    first, blank, last = result.stdout.split("\n")[:-1]
    assert first.startswith("jeder Vogel")
    assert blank == ""
    assert last == cli("translate", tiny_run, input="one bird!").stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("prefixes", "count"), [("a\n", "1 line"), ("a\nb\nc\n", "3 lines"), ("", "0 lines")]
)
def test_the_number_of_prefixes_must_equal_that_of_lines(
    prefixes: str, count: str, cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path, source = tmp_path / "begins.de", tmp_path / "text.en"
    path.write_text(prefixes, encoding="utf-8")
    source.write_text("a dog\nthe man\n", encoding="utf-8")
    expected = f"{path} has {count} but {source} has 2: line n of one must begin"
    result = cli("translate", tiny_run, source, "--prefixes", path)
    assert result.error.startswith(expected)
    assert result.stdout == ""
    piped = cli("translate", tiny_run, "--prefixes", path, input=source.read_bytes()).error
    left = "more lines but standard input has 2"
    assert (left if count == "3 lines" else "but standard input has more") in piped


def test_options_that_exclude_each_other_are_refused(cli: CommandLine, tiny_run: Path) -> None:
    for arguments, expected in (
        (["--prefix", "a", "--prefixes", "b"], "--prefix and --prefixes exclude"),
        (["--prefixes", "-"], "text and prefixes cannot both be standard input"),
        (["--given", "a", "--split"], "--given scores given translations"),
        (["--given", "a", "--prefixes", "b"], "--given scores given translations"),
    ):
        assert cli("translate", tiny_run, *arguments, input="a dog\n").error.startswith(expected)


def test_several_models_translate_together(cli: CommandLine, tiny_run: Path, own_run: Path) -> None:
    alone = cli("translate", tiny_run, "--engine", "torch", "--json", input=TEXT)
    both = cli("translate", tiny_run, "--with", own_run, "--json", input=TEXT)
    for row, other in zip(objects(alone.stdout), objects(both.stdout), strict=True):
        assert row["text"] == other["text"]
        assert row["score"] == pytest.approx(other["score"], abs=1e-4)


LETTERS = st.sampled_from("ab. ä我😀\t\r\x01\x0b\x0c\x1b\x1c\x7f\x85\u00a0\u2028\u2029\ufeff")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text(LETTERS, max_size=12), max_size=5),
    ends=st.randoms(use_true_random=False),
    mark=st.booleans(),
    options=st.sets(st.sampled_from(["--no-split", "--align"])),
)
def test_line_n_of_the_output_is_line_n_of_the_input_whatever_is_in_it(
    lines: list[str],
    ends: random.Random,
    mark: bool,
    options: set[str],
    cli: CommandLine,
    tiny_run: Path,
) -> None:
    text = "\ufeff" * mark + "".join(line + ends.choice(["\n", "\r\n"]) for line in lines)
    if lines and lines[-1]:
        text = text.removesuffix("\n") if ends.random() < 0.5 else text
    expected = text.removeprefix("\ufeff").split("\n")
    expected = [line.removesuffix("\r") for line in expected]
    if not expected[-1] and not text.removeprefix("\ufeff").endswith("\r"):
        expected.pop()
    arguments = ["translate", str(tiny_run), "--beam", "1", "--batch", "2", *sorted(options)]
    found = objects(cli(*arguments, "--json", input=text.encode()).stdout)
    assert [row["source"] for row in found] == expected
    assert [row["line"] for row in found] == list(range(1, len(expected) + 1))
    plain = cli(*arguments, input=text.encode())
    assert plain.stdout.count("\n") == len(expected)
    assert plain.stderr.splitlines() == ["engine: ctranslate2 on cpu, float32"]


@pytest.mark.parametrize(
    ("options", "split"), [((), True), (("--split",), True), (("--no-split",), False)]
)
def test_a_line_is_split_into_sentences_unless_no_split_is_given(
    options: tuple[str, ...], split: bool, tiny_run: Path, cli: CommandLine
) -> None:
    output = cli("translate", tiny_run, *options, input=TEXT).stdout.split("\n")[:-1]
    translator = Translator.load(tiny_run)
    found = translator.translate(LINES, split=split)
    assert [translation.text for translation in found] == output
    first, second = (
        translation.text.strip() for translation in translator.translate(LINES[0].split("  "))
    )
    assert (output[0] == f"{first}  {second}") is split


def test_without_the_splitter_lines_are_not_split_and_one_warning_says_so(
    cli: CommandLine, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cli("translate", tiny_run, "--no-split", input=TEXT)
    monkeypatch.setitem(sys.modules, "sentencex", None)
    result = cli("translate", tiny_run, input=TEXT)
    assert result.stdout == whole.stdout
    assert result.stderr.count("sentencex is not installed") == 1
    assert cli("translate", tiny_run, "--no-split", input=TEXT).stderr == whole.stderr
    with_split = cli("translate", tiny_run, "--split", input=TEXT)
    assert with_split.error.startswith("--split needs sentencex, which is not installed")
    assert with_split.stdout == ""


def test_help_has_a_panel_for_each_kind_of_option(cli: CommandLine) -> None:
    for columns in ("80", "120"):
        shown = cli("translate", "--help", env={"COLUMNS": columns}).stdout
        for panel in ("Input", "Output", "Search", "Sampling", "Machine"):
            assert f"─ {panel} ─" in shown
        assert max(map(len, shown.splitlines())) <= int(columns)
        assert "--with runs/seed2" in shown


def test_a_text_that_cannot_be_read_is_refused_before_a_model_is_loaded(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    for words in (["nowhere.en"], ["-", "--prefixes", "nowhere.de"], ["-", "--given", "no.de"]):
        result = cli("translate", tiny_run, *words)
        assert words[-1] in result.error
        assert "engine" not in result.stderr
    (tmp_path / "bad.en").write_bytes(b"\xff\xfe\xff\n")
    assert "engine" not in cli("translate", tiny_run, tmp_path / "bad.en").stderr


# Inputs: text, files, several files.


def test_text_can_be_given_as_an_argument(cli: CommandLine, tiny_run: Path) -> None:
    for words in ("the dog sees a man.", "a dog", "bird!", "a dog\n\none bird!"):
        result = cli("translate", tiny_run, words, input="not read")
        assert result.status == 0, result.stderr
        assert result.stdout == cli("translate", tiny_run, input=words).stdout


def test_several_inputs_are_translated_one_after_the_other(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.en", tmp_path / "b.en"
    first.write_text("a dog\n", encoding="utf-8")
    second.write_text("the man\n\n", encoding="utf-8")
    together = cli("translate", tiny_run, first, "one bird!", second, "-", "--json", input="a tree")
    found = objects(together.stdout)
    assert [row["source"] for row in found] == ["a dog", "one bird!", "the man", "", "a tree"]
    assert [row["line"] for row in found] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["tset.en", "tset", "folder/tset.en", "folder/my tset.en"])
def test_a_mistyped_file_name_is_not_translated_as_text(
    name: str, cli: CommandLine, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for arguments in ([name], ["a dog runs.", name]):
        result = cli("translate", tiny_run, *arguments)
        assert result.error.startswith(f"{name} does not exist: expected a text file, or text")
        assert result.stdout == ""


def test_invalid_inputs_are_refused(cli: CommandLine, tiny_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_text("a dog\n", encoding="utf-8")
    for arguments, expected in (
        (["-", "-"], "- is given twice"),
        ([""], "an argument is empty"),
        ([path, path, "--given", path], "--given has one line for each line of a file"),
        (["a dog.", "--prefixes", path], "--prefixes has one line for each line of a file"),
        (["a dog \udcff."], "the text 'a dog \\udcff.' is not UTF-8"),
    ):
        assert cli("translate", tiny_run, *arguments).error.startswith(expected)


# Outputs.


def test_out_writes_the_same_as_standard_output(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "out.de"
    result = cli("translate", tiny_run, "--nbest", "2", "--out", out, input=TEXT)
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == f"wrote {out}"
    expected = cli("translate", tiny_run, "--nbest", "2", "--out", "-", input=TEXT).stdout
    assert out.read_bytes().decode() == expected
    assert [path.name for path in out.parent.iterdir()] == ["out.de"]


def test_several_files_go_into_a_folder_named_by_language(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    names = ("a.en", "b.en.gz", "notes.txt")
    for name in names:
        data = f"a dog {name}\n".encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    files, out = [tmp_path / name for name in names], tmp_path / "out"
    assert cli("translate", tiny_run, *files, "--json", "--out", out).status == 0
    assert sorted(path.name for path in out.iterdir()) == ["a.de", "b.de", "notes.txt"]
    for name, path in zip(names, ("a.de", "b.de", "notes.txt"), strict=True):
        (found,) = objects((out / path).read_text(encoding="utf-8"))
        assert (found["line"], found["source"]) == (1, f"a dog {name}")
    alone = tmp_path / "alone"
    alone.mkdir()
    assert cli("translate", tiny_run, files[0], "--out", alone).status == 0
    assert (alone / "a.de").exists()


def test_out_replaces_a_file_only_with_overwrite(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    source, out, other = tmp_path / "a.en", tmp_path / "a.de", tmp_path / "b"
    source.write_text("a dog\n", encoding="utf-8")
    out.write_text("the reference\n", encoding="utf-8")
    other.mkdir()
    (other / "a.en").write_text("a man\n", encoding="utf-8")
    for arguments, expected in (
        ([source, "--out", out], f"{out} exists: choose another name, or replace it with --over"),
        ([source, "--out", tmp_path], f"{out} exists: "),
        ([source, "--out", source, "--overwrite"], f"{source} is the text to translate"),
        ([source, other / "a.en", "--out", out], f"--out {out} is a file: several inputs need"),
        ([source, other / "a.en", "--out", tmp_path / "new"], "two inputs would be written to"),
        (["a dog", "--out", other], "the text has no file name to use in a folder"),
        (["--out", other], "standard input has no file name to use in a folder"),
        ([source, "--out", tmp_path / "a.gz"], f"--out {tmp_path / 'a.gz'}: output is not compr"),
    ):
        result = cli("translate", tiny_run, *map(str, arguments), input="a dog")
        assert result.error.startswith(expected)
        assert "engine" not in result.stderr
    assert out.read_text(encoding="utf-8") == "the reference\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "b"]
    link = tmp_path / "link.de"
    link.symlink_to(out)
    assert cli("translate", tiny_run, source, "--out", link, "--overwrite").status == 0
    assert link.is_symlink()
    assert out.read_text(encoding="utf-8") == cli("translate", tiny_run, source).stdout


def test_an_output_is_complete_or_absent(cli: CommandLine, tiny_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.de"
    for wrong in (b"a dog\n" * 3 + b"b\xe4d\n", b"a\0dog\n"):
        result = cli("translate", tiny_run, "--beam", "1", "--out", out, input=wrong)
        assert result.status == 1
        assert list(tmp_path.iterdir()) == []
    prefixes = tmp_path / "begins.de"
    prefixes.write_text("ein\n" * 3, encoding="utf-8")
    more = ("--prefixes", prefixes, "--out", out)
    assert cli("translate", tiny_run, *more, input="a dog\n").error
    assert not out.exists()


def test_out_may_be_a_device(cli: CommandLine, tiny_run: Path) -> None:
    for _ in range(2):
        assert cli("translate", tiny_run, "a dog.", "--out", "/dev/null").status == 0
    assert not Path("/dev/null").is_file()


# Too few or too many given translations.


def test_a_mismatch_of_given_translations_is_found_before_anything_is_written(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.cli.lines.SCORED", 2)
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("a dog\n" * 7, encoding="utf-8")
    for count in (5, 9):
        target.write_text("ein Hund\n" * count, encoding="utf-8")
        result = cli("translate", tiny_run, source, "--given", target)
        assert result.error.startswith(f"{source} has 7 lines but {target} has {count}: line n")
        assert result.stdout == ""
        assert "engine" not in result.stderr


def test_a_mismatch_found_in_a_pipe_says_how_many_lines_were_scored(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.cli.lines.SCORED", 2)
    target, out = tmp_path / "a.de", tmp_path / "out"
    target.write_text("ein Hund\n" * 5, encoding="utf-8")
    result = cli("translate", tiny_run, "--given", target, input="a dog\n" * 7)
    assert result.error.startswith(f"standard input has 7 lines but {target} has 5")
    assert result.error.endswith("; only the first 4 lines were scored")
    assert result.stdout.count("\n") == 4
    arguments = ("--given", target, "--out", out)
    assert cli("translate", tiny_run, *arguments, input="a dog\n" * 7).error
    assert not out.exists()
