"""Texts and sentences of a translation memory are not searched; their translations are marked."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from conftest import CommandLine
from hypothesis import given, settings
from hypothesis import strategies as st
from untrained_translator import untrained_translator

from transduce.errors import BadInput
from transduce.glossary import Glossary
from transduce.markup import Inline, Tag
from transduce.translation.memory import Memory
from transduce.translation.translation import Translation

TRANSLATOR = untrained_translator(sentinels=True)
DONE = Memory.of(
    [
        ("Two dogs run.", "Zwei Hunde rennen."),
        ("Open {name} now.", "{name} jetzt öffnen."),
        ("Close {name} now.", "Jetzt schließen."),  # lacks the placeholder
        ("A man sleeps. A dog runs.", "Mann schläft, Hund rennt."),
    ]
)


def translate(text: str | Inline, **options: Any) -> Translation:
    return TRANSLATOR.translate([text], **{"memory": DONE, "extra": 5, "beam": 2, **options})[0]


def test_a_text_of_the_memory_is_not_searched() -> None:
    with patch.object(TRANSLATOR.engine, "search", side_effect=AssertionError("searched")):
        translation = translate("Two dogs run.")
    assert translation.text == "Zwei Hunde rennen."
    assert translation.to_json()["memory"] == [
        {"source": "Two dogs run.", "target": "Zwei Hunde rennen."}
    ]


def test_a_sentence_of_a_text_comes_from_the_memory_and_the_others_from_the_model() -> None:
    text = "A big dog. Two dogs run."
    own = translate("A big dog.", memory=None).text
    translation = translate(text)
    assert translation.text == f"{own} Zwei Hunde rennen."
    assert [used.source for used in translation.memory] == ["Two dogs run."]
    assert translation.parts == 1


def test_a_whole_text_comes_before_its_sentences() -> None:
    assert translate("A man sleeps. A dog runs.").text == "Mann schläft, Hund rennt."


def test_without_a_match_nothing_changes() -> None:
    for text in ("A man runs.", "two dogs run.", "Two dogs run. A man"):
        with_memory = translate(text, memory=Memory.of([("Other.", "Anderes.")]))
        assert with_memory == translate(text, memory=None)


@pytest.mark.parametrize("text", ["Two  dogs\trun.", " Two dogs run. ", "Two dogs run.\n"])
def test_white_space_may_differ(text: str) -> None:
    assert translate(text).text == "Zwei Hunde rennen."


def test_a_translation_has_the_spans_of_its_source() -> None:
    kept = translate("Open {name} now.")
    assert kept.text == "{name} jetzt öffnen."
    assert [span.placed for span in kept.spans] == ["copied"]
    assert kept.memory
    lost = translate("Close {name} now.")
    assert not lost.memory
    assert "{name}" in lost.text


def test_without_protection_the_memory_is_used_as_it_is() -> None:
    assert translate("Close {name} now.", keep=False).text == "Jetzt schließen."


def test_a_text_with_tags_is_translated_by_the_model() -> None:
    bold = ("Two ", Tag("open", 1), "dogs", Tag("close", 1), " run.")
    assert not translate(bold).memory
    line = translate("<b>Two dogs run.</b>")
    assert not line.memory
    assert line.text.count("<b>") == 1


def test_a_text_of_a_document_keeps_the_space_around_it() -> None:
    assert translate(("  Two dogs run. ",)).content == ("  Zwei Hunde rennen. ",)


def test_a_prefix_excludes_the_memory() -> None:
    assert not TRANSLATOR.translate(["Two dogs run."], prefixes=["Zwei"], memory=DONE)[0].memory


def test_options_of_the_search_do_not_disturb_the_memory() -> None:
    glossary = Glossary.of({"dogs": "Wauwaus"})
    translation = translate("Two dogs run.", glossary=glossary, guard="retry", nbest=2, align=True)
    assert translation.text == "Zwei Hunde rennen."
    assert not translation.terms
    assert translation.alignment == ()


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_any_translation_is_used_as_it_is_or_not_at_all(target: str) -> None:
    translation = translate("Two dogs run.", memory=Memory.of([("Two dogs run.", target)]))
    if translation.memory:
        assert translation.text == " ".join(target.split())


def test_the_last_of_several_translations_counts() -> None:
    memory = Memory.of([("a", "first"), ("a", "last"), ("b", " "), ("", "c")])
    assert len(memory) == 1
    assert memory.find("a") == "last"


def test_of_several_files_the_later_ones_take_precedence(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "client.tsv", tmp_path / "project.tsv"]
    files[0].write_text("a dog\tein Hund!\na man\tein Mann!\n", encoding="utf-8")
    files[1].write_text("a dog\tder Hund!\n", encoding="utf-8")
    memory = Memory.load(files)
    assert [memory.find(text) for text in ("a dog", "a man")] == ["der Hund!", "ein Mann!"]
    assert len(memory) == 2
    options = [word for file in files for word in ("--memory", file)]
    assert cli("translate", tiny_run, *options, input="a man\na dog\n").stdout == (
        "ein Mann!\nder Hund!\n"
    )


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "memory.en-de.tsv"
    file.write_text("a\t\n", encoding="utf-8")
    with pytest.raises(BadInput, match="has no pair with text on both sides"):
        Memory.load(file)


def test_json_is_complete() -> None:
    assert json.dumps(translate("A big dog. Two dogs run.").to_json(candidates=True))


def test_the_command_uses_a_tmx(cli: CommandLine, tiny_run: Path, tmp_path: Path) -> None:
    tmx = Path("examples/done.tmx").resolve()
    text = "The bakery is closed. a dog\nthe man\nOpen the window.\n"
    result = cli("translate", tiny_run, "--memory", tmx, "--json", input=text)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[0]["text"].startswith("Die Bäckerei hat heute zu. ")
    assert rows[0]["memory"] == [
        {"source": "The bakery is closed.", "target": "Die Bäckerei hat heute zu."}
    ]
    assert "memory" not in rows[1]
    assert rows[2]["text"] == "Bitte öffnen Sie das Fenster."
    assert "2 lines translated with the memory" in result.stderr


def test_a_memory_of_other_languages_is_refused(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    tmx = tmp_path / "other.tmx"
    tmx.write_text(
        Path("examples/done.tmx").read_text("utf-8").replace('lang="de"', 'lang="fr"'), "utf-8"
    )
    assert "en, fr" in cli("translate", tiny_run, "a dog.", "--memory", tmx).error


def test_a_document_uses_the_memory(cli: CommandLine, tiny_run: Path, tmp_path: Path) -> None:
    page, out = tmp_path / "page.html", tmp_path / "out.html"
    page.write_text("<p>The bakery is closed.</p><p>Open <b>the</b> window.</p>", encoding="utf-8")
    result = cli(
        "translate", tiny_run, page, "--out", out, "--memory", Path("examples/done.tmx").resolve()
    )
    assert "1 text translated with the memory" in result.stderr
    assert "<p>Die Bäckerei hat heute zu.</p>" in out.read_text(encoding="utf-8")
