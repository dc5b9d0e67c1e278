"""Text is read exactly as written; unreadable text is refused with its file and line."""

import gzip
import io
import itertools
import lzma
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import BadInput, MissingExtra
from transduce.text import reading as text
from transduce.text.languages import guess_languages
from transduce.text.reading import read_lines, read_pairs

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"))
# A carriage return at a line's end belongs to the line break, a mark at the start to the file.
LINES = st.lists(LINE.map(lambda line: line.rstrip("\r").lstrip("\ufeff")))


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def from_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("ending", COMPRESS)
@given(lines=LINES)
def test_lines_are_read_as_written(ending: str, lines: list[str]) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "text" + ending), COMPRESS[ending](data))
        assert list(read_lines(path, as_text=True)) == lines  # it may look like subtitles


@given(lines=LINES, size=st.integers(1, 9))
def test_lines_do_not_depend_on_the_size_of_blocks(lines: list[str], size: int) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    blocks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    assert list(itertools.chain.from_iterable(text._split_lines(blocks, "text"))) == lines


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    strange = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh"
    path = write(tmp_path / "text", f"{strange}\nnext\n".encode())
    assert list(read_lines(path)) == [strange, "next"]


def test_a_carriage_return_before_the_line_feed_is_removed(tmp_path: Path) -> None:
    path = write(tmp_path / "text", b"one\r\n\r\ntwo\rthree\r\nlast\r")
    assert list(read_lines(path)) == ["one", "", "two\rthree", "last"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one", ["one"]),
        (b"one\n", ["one"]),
        (b"one\n\n", ["one", ""]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [""]),
        (b"\xef\xbb\xbfone", ["one"]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
    ],
)
def test_file_ends_and_byte_order_marks_are_not_lines(
    tmp_path: Path, data: bytes, lines: list[str]
) -> None:
    assert list(read_lines(write(tmp_path / "text", data))) == lines


def test_text_that_is_not_utf8_is_refused_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "text", b"one\n" * 70_000 + b"Stra\xdfe\nmore\n")
    with pytest.raises(BadInput, match=r"text, line 70,001 is not UTF-8 \(byte 0xdf\)"):
        list(read_lines(path))


def test_a_surrogate_in_utf8_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "text", b"one\n\xed\xa0\x80\n")
    with pytest.raises(BadInput, match="line 2 is not UTF-8"):
        list(read_lines(path))


def test_a_nul_byte_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "text", b"one\ntwo\nth\0ree")
    with pytest.raises(BadInput, match="text, line 3 has a NUL byte"):
        list(read_lines(path))


def test_utf16_is_recognised(tmp_path: Path) -> None:
    path = write(tmp_path / "text", "one\ntwo\n".encode("utf-16"))
    with pytest.raises(BadInput, match="is UTF-16: expected UTF-8"):
        list(read_lines(path))


def test_an_endless_line_is_refused_in_bounded_memory() -> None:
    with pytest.raises(BadInput, match="text, line 2 is longer than 16 MiB"):
        list(text._split_lines(itertools.chain([b"one\n"], itertools.repeat(b"x" * 65536)), "text"))
    long = b"y" * 65536
    assert list(text._split_lines([long] * 100, "text"))[-1] == [(long * 100).decode()]


def test_unreadable_files_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="absent does not exist"):
        list(read_lines(tmp_path / "absent"))
    with pytest.raises(BadInput, match="is a folder: expected a text file"):
        list(read_lines(tmp_path))
    with pytest.raises(BadInput, match="cannot be opened"):
        list(read_lines("a\0b"))

    def denied(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(BadInput, match="secret may not be read: permission denied"):
        list(read_lines(tmp_path / "secret"))


def test_a_disk_error_is_reported(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(BadInput, match=r"tape cannot be read: .*Input/output error"):
        list(text._blocks("tape", Broken()))


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["text", "text{}"])
def test_a_truncated_compressed_file_is_refused(tmp_path: Path, ending: str, name: str) -> None:
    data = COMPRESS[ending](b"".join(b"line %d\n" % number for number in range(5000)))
    for cut in (10, len(data) // 2, len(data) - 1):
        path = write(tmp_path / name.format(ending), data[:cut])
        with pytest.raises(BadInput, match="is truncated"):
            list(read_lines(path))


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_flipped_bit_in_a_compressed_file_is_found(tmp_path: Path, ending: str) -> None:
    original = b"".join(b"line %d\n" % zlib.crc32(b"%d" % number) for number in range(3000))
    data = COMPRESS[ending](original)
    for place in range(20, len(data) - 8, len(data) // 12):
        damaged = bytearray(data)
        damaged[place] ^= 4
        path = write(tmp_path / f"text{ending}", bytes(damaged))
        with pytest.raises(BadInput, match=r"is damaged|is truncated|is not UTF-8|has a NUL"):
            list(read_lines(path))


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_compressed_suffix_without_compression_is_refused(tmp_path: Path, ending: str) -> None:
    for data in (b"", b"plain text\n"):
        path = write(tmp_path / f"text{ending}", data)
        with pytest.raises(BadInput, match=r"does not begin like a .* it is damaged or misnamed"):
            list(read_lines(path))


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_concatenated_compressed_files_are_read(tmp_path: Path, ending: str) -> None:
    data = COMPRESS[ending](b"one\ntw") + COMPRESS[ending](b"o\n")
    assert list(read_lines(write(tmp_path / "text", data))) == ["one", "two"]
    padded = write(tmp_path / "padded", data + b"\0" * 8)
    assert list(read_lines(padded)) == ["one", "two"]
    path = write(tmp_path / "followed", data + b"rubbish")
    with pytest.raises(BadInput, match=r"followed is (damaged|truncated)"):
        list(read_lines(path))


def test_zst_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "text.zst", COMPRESS[".zst"](b"one\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtra, match=r"reading \.zst files needs zstandard.*\[zst\]"):
        list(read_lines(path))


@pytest.mark.parametrize("ending", COMPRESS)
def test_standard_input_is_read_and_left_open(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    from_stdin(monkeypatch, COMPRESS[ending](b"one\ntwo"))
    assert list(read_lines("-")) == ["one", "two"]
    assert not sys.stdin.closed


def test_standard_input_is_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    from_stdin(monkeypatch, b"one\n\xff\n")
    with pytest.raises(BadInput, match="standard input, line 2 is not UTF-8"):
        list(read_lines("-"))


def test_a_typed_line_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Typing(io.BytesIO):
        typed = iter([b"Hi", b"\n", b"Bye\n"])

        def read1(self, size: int | None = -1) -> bytes:
            return next(self.typed)

    stream = io.TextIOWrapper(Typing())
    monkeypatch.setattr(sys, "stdin", stream)
    lines = read_lines("-")
    assert next(lines) == "Hi"
    assert next(Typing.typed) == b"Bye\n"


def test_two_files_give_pairs_line_by_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", b"one\n\na\tb\n")
    target = write(tmp_path / "a.de.xz", lzma.compress(b"eins\nleer\nc\n"))
    assert list(read_pairs(source, target)) == [("one", "eins"), ("", "leer"), ("a\tb", "c")]


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 2), (1, 0)])
def test_unequal_files_are_refused_with_both_counts(tmp_path: Path, left: int, right: int) -> None:
    source = write(tmp_path / "a.en", b"one\n" * left)
    target = write(tmp_path / "a.de", b"eins\n" * right)
    with pytest.raises(BadInput, match=rf"a\.en has {left} lines? but .*a\.de has {right}: line n"):
        list(read_pairs(source, target))


def test_a_tsv_gives_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"one\teins\n\t\n two \t zwei \r\n")
    assert list(read_pairs(path, None)) == [("one", "eins"), ("", ""), (" two ", " zwei ")]


@pytest.mark.parametrize(
    ("line", "found"), [("two", "no tab"), ("", "no tab"), ("a\tb\tc", "3 columns")]
)
def test_a_tsv_line_without_two_columns_is_refused(tmp_path: Path, line: str, found: str) -> None:
    path = write(tmp_path / "a.tsv", f"one\teins\n{line}\n".encode())
    with pytest.raises(BadInput, match=rf"a\.tsv, line 2 has {found}: expected two columns"):
        list(read_pairs(path, None))


def test_empty_texts_are_refused(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty", b"")
    with pytest.raises(BadInput, match="empty is empty: expected one pair"):
        list(read_pairs(empty, None))
    with pytest.raises(BadInput, match="are empty: expected one sentence per line"):
        list(read_pairs(empty, empty))


def test_both_sides_cannot_be_standard_input() -> None:
    with pytest.raises(BadInput, match="cannot both be standard input"):
        read_pairs("-", "-")


@pytest.mark.parametrize(
    ("source", "target", "given", "expected"),
    [
        ("train.en", "train.de", None, ("en", "de")),
        ("train.en.xz", "train.de.gz", None, ("en", "de")),
        ("data/train.en-de.en", "data/train.en-de.de", None, ("en", "de")),
        ("train.en.txt", "train.pt_BR.txt", None, ("en", "pt_BR")),
        ("train.en-de.tsv.xz", None, None, ("en", "de")),
        ("train.en-de.tsv", None, "fr-it", ("fr", "it")),
        ("train.en", "train.de", "fr-pt_BR", ("fr", "pt_BR")),
        ("train.txt", "other.txt", None, ("src", "tgt")),
        ("train.src", "train.tgt", None, ("src", "tgt")),
        ("en", "de", None, ("src", "tgt")),
        ("train.tsv", None, None, ("src", "tgt")),
        ("train.english", "train.german", None, ("src", "tgt")),
        ("-", None, None, ("src", "tgt")),
    ],
)
def test_languages_are_given_or_taken_from_file_names(
    source: str, target: str | None, given: str | None, expected: tuple[str, str]
) -> None:
    assert guess_languages(source, target, given) == expected


@pytest.mark.parametrize("given", ["en", "en-de-fr", "-", "en-", "en de", ""])
def test_languages_must_be_two_codes(given: str) -> None:
    with pytest.raises(BadInput, match=r"expected two codes .* such as en-de"):
        guess_languages("a", "b", given)


def test_reading_text_needs_no_heavy_library() -> None:
    code = "import sys, transduce.text.reading; print({'numpy', 'tokenizers'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
