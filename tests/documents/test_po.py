"""gettext PO: messages are filled in and marked as fuzzy; finished translations stay."""

import shutil
import subprocess
from pathlib import Path

import polib
import pytest
from text_documents import read, spoil_and_read, texts, translated

from transduce.documents.po import escape, unescape, wrapped
from transduce.errors import BadInput

FILES = Path(__file__).parent / "files"
TEMPLATE = (FILES / "demo.pot").read_text(encoding="utf-8")  # by xgettext
RUSSIAN = (FILES / "demo.ru.po").read_text(encoding="utf-8")  # by msginit
HEADER = """\
msgid ""
msgstr ""
"Language: de\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

"""
MESSAGES = (
    HEADER
    + """\
# finished
msgid "Open"
msgstr "Öffnen"

# to check
#: a.c:1
#, fuzzy, c-format
#| msgid "Close file"
msgid "Close %s"
msgstr "Datei schließen"

msgctxt "menu"
msgid "Close"
msgstr ""

#, fuzzy
#~ msgid "Old"
#~ msgstr "Alt"

msgid "42: 7"
msgstr ""
"""
)


def keep_placeholders(text: str) -> str:
    return text.replace("file", "DATEI").replace("Hello", "HALLO")


@pytest.mark.parametrize("text", [TEMPLATE, RUSSIAN, MESSAGES])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_nothing_changes_without_translations(text: str, end: str) -> None:
    data = text.replace("\n", end).encode()
    assert read("po", data, languages=("en", "ru")).to_bytes() == data
    assert read("po", b"\xef\xbb\xbf" + data).to_bytes() == b"\xef\xbb\xbf" + data


def test_messages_without_a_translation_and_fuzzy_ones_are_units() -> None:
    document = read("po", MESSAGES)
    assert texts(document) == ["Close %s", "Close"]
    assert document.left_alone == [
        "1 message that had a translation",
        "1 message without words",
    ]
    assert texts(read("po", MESSAGES, overwrite=True)) == ["Open", "Close %s", "Close"]


def test_flags_of_obsolete_messages_are_not_those_of_the_next() -> None:
    text = '#, fuzzy\n#~ msgid "Old"\n#~ msgstr "Alt"\n\nmsgid "New"\nmsgstr "Neu"\n'
    assert texts(read("po", HEADER + text)) == []


def test_filled_messages_are_fuzzy_and_all_else_stays() -> None:
    result = translated("po", MESSAGES, lambda text: text.replace("Close", "Schließen"))
    assert result == MESSAGES.replace("Datei schließen", "Schließen %s").replace(
        'msgctxt "menu"\nmsgid "Close"\nmsgstr ""',
        '#, fuzzy\nmsgctxt "menu"\nmsgid "Close"\nmsgstr "Schließen"',
    )


def test_a_translation_may_equal_its_message() -> None:
    assert 'msgid "Close"\nmsgstr "Close"' in translated("po", MESSAGES, str)


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs gettext")
@pytest.mark.parametrize(
    ("text", "language", "overwrite"),
    [
        (TEMPLATE, "de", False),
        (TEMPLATE.replace("python-format", "c-format"), "de", False),
        (RUSSIAN, "ru", False),
        (RUSSIAN, "ru", True),
        (MESSAGES, "de", True),
    ],
)
def test_gettext_accepts_the_result(
    text: str, language: str, overwrite: bool, tmp_path: Path
) -> None:
    path = tmp_path / "out.po"
    result = translated(
        "po", text, lambda part: part + " ж", languages=("en", language), overwrite=overwrite
    )
    path.write_text(result, encoding="utf-8")
    subprocess.run(
        ["msgfmt", "-c", "--use-fuzzy", "-o", tmp_path / "out.mo", path],
        check=True,
        capture_output=True,
    )


def test_an_independent_reader_finds_the_translations(tmp_path: Path) -> None:
    before = {(e.msgctxt, e.msgid): e for e in polib.pofile(RUSSIAN)}
    after = polib.pofile(translated("po", RUSSIAN, str.swapcase, languages=("en", "ru")))
    assert [(e.msgctxt, e.msgid) for e in after] == list(before)
    for entry in after:
        assert entry.fuzzy
        assert entry.occurrences == before[entry.msgctxt, entry.msgid].occurrences
        if not entry.msgid_plural:
            assert entry.msgstr == entry.msgid.swapcase()


def test_plural_forms_translate_the_singular_or_the_plural() -> None:
    # In Russian, 21 files have the form of one file, so "One file" does not fit.
    assert texts(read("po", RUSSIAN, languages=("en", "ru")))[4:7] == ["%d files"] * 3
    german = translated("po", TEMPLATE)
    assert 'msgstr[0] "%D FILES"\nmsgstr[1] "%D FILES"\n' in german  # Python's are strict
    in_c = translated("po", TEMPLATE.replace("python-format", "c-format"))
    assert 'msgstr[0] "ONE FILE"\nmsgstr[1] "%D FILES"\n' in in_c
    assert '#, fuzzy\nmsgid ""\n' not in german
    assert '"Language: de\\n"' in german
    assert "charset=UTF-8" in german
    assert "nplurals=2; plural=(n != 1);" in german
    japanese = translated("po", TEMPLATE, languages=("en", "ja"))
    assert 'msgstr[0] "%D FILES"\n\n' in japanese
    assert "msgstr[1]" not in japanese


def test_plural_forms_of_unknown_languages_are_left_alone() -> None:
    document = read("po", TEMPLATE, languages=("en", "tlh"))
    assert "One file" not in texts(document)
    (note,) = document.left_alone
    assert note == (
        "1 message with plural forms: the header has no Plural-Forms, and those of 'tlh' are not "
        "known"
    )


def test_long_strings_are_wrapped_as_gettext_does() -> None:
    source = [entry.msgid for entry in polib.pofile(TEMPLATE) if len(entry.msgid) > 80]
    assert source
    for text in source:
        assert wrapped("msgid", text, "\n", 79) in TEMPLATE
    unwrapped = HEADER + f'msgid "{"long words " * 20}"\nmsgstr ""\n'
    assert translated("po", unwrapped).count("\n") == unwrapped.count("\n") + 1


def test_escapes_are_read_and_written() -> None:
    text = 'tab\t quote" backslash\\ line\n bell\a'
    assert unescape(escape(text)) == text
    assert escape(text) == 'tab\\t quote\\" backslash\\\\ line\\n bell\\a'
    assert unescape("\\101\\x42") == "AB"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('msgid "a"\n', "has no msgstr"),
        ('msgstr "a"\n', "has a msgstr without a msgid"),
        ('msgid "a\nmsgstr "b"\n', "line 1 is not a line of a PO file"),
        ('"a"\n', "line 1 is not a line of a PO file"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr ""\n', "expected msgstr\\[0\\] after msgid_plural"),
        (HEADER.replace("UTF-8", "ISO-8859-1"), "is in ISO-8859-1: convert it"),
        (
            HEADER.replace("(n != 1)", "__import__('os')")
            + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n',
            "Plural-Forms that cannot be used",
        ),
    ],
)
def test_damaged_files_are_refused(text: str, expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        read("po", text)


def test_spoiled_files_are_refused_or_read() -> None:
    spoil_and_read("po", MESSAGES)
    spoil_and_read("po", RUSSIAN, languages=("en", "ru"))
