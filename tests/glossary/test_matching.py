"""Terms are found in sources, and their translations in outputs."""

import itertools
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transduce.glossary import Entry, Glossary, Match, TermAccuracy, accuracy, contains, missing
from transduce.glossary.words import is_form, is_word, tokenize


def found(text: str, *entries: Entry | tuple[str, str]) -> list[str]:
    return [text[match.start : match.end] for match in Glossary.of(entries).find(text)]


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("Two files, one FILE.", "file", ["files", "FILE"]),
        ("a profile and a filename", "file", []),
        ("all directories", "directory", ["directories"]),
        ("the addresses", "address", ["addresses"]),
        ("three planes", "plan", []),
        ("three planes", "plane", ["planes"]),
        ("a plane", "plan", []),
        ("the file's name", "file", ["file"]),
        ("the file", "files", []),
        ("alle Dateien", "Datei", ["Dateien"]),
        ("golden Golden", "gold", []),
        ("les bateaux", "bateau", ["bateaux"]),
        ("Save  as file", "save as", ["Save  as"]),
        ("save-as", "save as", []),
        ("a C++ file in C", "C++", ["C++"]),
        ("C + +", "C++", []),
        ("数据库服务器", "服务器", ["服务器"]),
        ("e\u0301tats", "e\u0301tat", ["e\u0301tats"]),
        ("états", "e\u0301tat", ["états"]),
        ("हिन्दी भाषा", "हिन्दी", ["हिन्दी"]),
        ("파일을 서버에서 열고 파일 서버의 파일들에", "파일", ["파일을", "파일", "파일들에"]),
        ("파일 서버의 API를", "파일 서버", ["파일 서버의"]),
        ("API를 API키", "API", ["API를"]),
        ("파일럿이 사과", "파일", []),
        ("사과", "사", []),
        ("the \U000f0000file\U000f0001", "file", ["file"]),
        ("user \U000f0000 interface", "user interface", []),
    ],
)
def test_terms_are_whole_words_with_simple_endings(
    text: str, term: str, expected: list[str]
) -> None:
    assert found(text, (term, "x")) == expected


def test_an_entry_with_case_matches_exactly() -> None:
    assert found("it IT its ITS", Entry("IT", "EDV", case=True)) == ["IT"]
    entries = Entry("Word", "Word", case=True), Entry("word", "Wort")
    targets = [match.entry.target for match in Glossary.of(entries).find("Word and word")]
    assert targets == ["Word", "Wort"]


def test_entries_may_be_limited_to_a_place_in_the_sentence() -> None:
    open_ = [
        Entry("open", "Öffnen", where="whole"),
        Entry("open", "Öffne", where="start"),
        Entry("open", "offen", where="inside"),
    ]

    def targets(text: str) -> list[str]:
        return [match.entry.target for match in Glossary.of(open_).find(text)]

    assert targets("Open!") == ["Öffnen"]
    assert targets("- “Open” the file") == ["Öffne"]
    assert targets("It is open.") == ["offen"]
    assert targets("Open: it is open.") == ["Öffne", "offen"]
    assert found("open it", Entry("open", "x", where="whole")) == []


def test_the_longest_term_comes_first_and_then_the_leftmost() -> None:
    terms = [("file", "1"), ("file server", "2"), ("server room door", "3"), ("server", "4")]
    assert found("the file server room door", *terms) == ["file", "server room door"]
    assert found("the file server room", *terms) == ["file server"]
    assert found("a b c", ("a b", "1"), ("b c", "2")) == ["a b"]


WORDS = ["file", "files", "File", "Files", "server", "servers", "a", "+", "\U000f0000", "文"]
TERMS = ["file", "File", "server", "a", "+", "文"]
TEXTS = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(["", " ", "  "])), max_size=8)
ENTRIES = st.builds(
    lambda words, case, where: Entry(" ".join(words), "x", case, where),
    st.lists(st.sampled_from(TERMS), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(["anywhere", "start", "inside", "whole"]),
)


def slow_find(text: str, entries: list[Entry]) -> list[tuple[int, int]]:
    """Compare every entry with every run of words; keep the longest, then the leftmost."""
    tokens = tokenize(text)
    spans = set()
    for entry, (first, last) in itertools.product(
        entries, itertools.combinations_with_replacement(range(len(tokens)), 2)
    ):
        terms, run = tokenize(entry.source), tokens[first : last + 1]
        before = any(is_word(token.text) for token in tokens[:first])
        after = any(is_word(token.text) for token in tokens[last + 1 :])
        place = {
            "anywhere": True,
            "start": not before,
            "inside": before,
            "whole": not before and not after,
        }
        if (
            len(terms) == len(run)
            and [term.spaced for term in terms[1:]] == [token.spaced for token in run[1:]]
            and all(
                token.text == term.text if entry.case else is_form(token.text, term.text)
                for token, term in zip(run, terms, strict=True)
            )
            and place[entry.where]
        ):
            spans.add((run[0].start, run[-1].end))
    chosen: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        if all(end <= other[0] or start >= other[1] for other in chosen):
            chosen.append((start, end))
    return sorted(chosen)


@settings(max_examples=200, deadline=None)
@example([("file", " "), ("server", "")], [Entry("file server", "x"), Entry("file", "x")])
@given(TEXTS, st.lists(ENTRIES, min_size=1, max_size=6))
def test_the_index_finds_what_comparing_everything_finds(
    words: list[tuple[str, str]], entries: list[Entry]
) -> None:
    text = "".join(itertools.chain.from_iterable(words))
    matches = Glossary.of(entries).find(text)
    assert [(match.start, match.end) for match in matches] == slow_find(text, entries)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.text(min_size=1, max_size=8))
def test_any_text_is_searched_without_errors(text: str, term: str) -> None:
    if term.strip() and not re.search("[\U000f0000-\U000ffffd]", term):
        matches = Glossary.of([(term, term)]).find(text)
        assert all(0 <= match.start < match.end <= len(text) for match in matches)
        assert contains(text, term) >= 0
        term = " ".join(term.split())
        assert contains(f" {term} ", term) >= 1


def test_a_large_glossary_is_searched_as_fast_as_a_small_one() -> None:
    text = " ".join(f"word{number}" for number in range(25))

    def seconds(size: int) -> float:
        glossary = Glossary.of({f"term{number} of many": "x" for number in range(size)})
        times = []
        for _ in range(20):
            begun = time.perf_counter()
            glossary.find(text)
            times.append(time.perf_counter() - begun)
        return min(times)

    assert seconds(20_000) < 10 * seconds(20)


@pytest.mark.parametrize(
    ("output", "term", "count"),
    [
        ("Zwei Dateien und eine Datei", "Datei", 2),
        ("die Daten", "Datei", 0),
        ("alte Häuser", "Haus", 1),
        ("die Haut", "Haus", 0),
        ("zum Drucken", "Drucker", 0),
        ("eine Ordnung", "Ordner", 0),
        ("eine Serie", "Server", 0),
        ("die Bildung", "Bild", 0),
        ("am Tage der Tagung", "Tag", 1),
        ("IT ITs its ITSM", "IT", 2),
        ("des Datenbankservers im Serverraum", "Server", 2),
        ("der Kontext", "Text", 0),
        ("der Export", "Port", 0),
        ("guter Ausdruck", "Druck", 0),
        ("Firmen und Zentren", "Firma", 1),
        ("Firmen und Zentren", "Zentrum", 1),
        ("les journaux du journal", "journal", 2),
        ("a journey", "journal", 0),
        ("le case e la casa", "casa", 2),
        ("папки с файлами", "папка", 1),
        ("папки с файлами", "файл", 1),
        ("die Benutzeroberflächen der Benutzer", "Benutzeroberfläche", 1),
        ("der grafischen Oberfläche", "grafische Oberfläche", 1),
        ("C++, nicht C", "C++", 1),
        ("file-server", "file server", 0),
        ("サーバールームのサーバー", "サーバー", 2),
        ("", "Haus", 0),
        ("파일에서 서버의", "파일", 1),
        ("파일에서는, 파일을 복사합니다", "파일", 2),
        ("화일을", "파일", 0),
    ],
)
def test_forms_of_a_term_count_and_other_words_do_not(output: str, term: str, count: int) -> None:
    assert contains(output, term) == count


def test_case_counts_if_the_entry_says_so() -> None:
    assert contains("word Word Words", "Word", case=True) == 2
    assert contains("word Word Words", "Word") == 3


def test_each_occurrence_of_a_term_needs_its_translation() -> None:
    glossary = Glossary.of({"folder": "Ordner", "directory": "Ordner", "file": "Datei"})
    source = "Files in a folder, directory or folder"
    matches = glossary.find(source)
    assert [match.entry.source for match in matches] == ["file", "folder", "directory", "folder"]
    assert missing(matches, "Dateien im Ordner und im Ordner") == [Match(matches[3].entry, 32, 38)]
    assert missing(matches, "Verzeichnis") == matches
    pairs = [(source, "Datei, Ordner"), ("a file", "eine Akte"), ("nothing", "nichts")]
    assert accuracy(pairs, glossary) == TermAccuracy(matched=5, found=2)
    assert accuracy(pairs, glossary).share == 0.4
    assert accuracy([("nothing", "nichts")], glossary).share == 1
