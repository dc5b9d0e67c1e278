"""Archives: only named members are read, with limits, and nothing is unpacked onto the disk."""

import gzip
import io
import lzma
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from transduce.datasets.catalogue import Location, Source
from transduce.datasets.formats import sentences
from transduce.datasets.unpacking import lines
from transduce.datasets.writing import pairs, reason_to_drop
from transduce.errors import BadData

TEXT = b"first\nsecond \xc3\xa4\n"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
Change = Callable[[tarfile.TarInfo], None]


def tar(path: Path, *members: tuple[str, bytes, Change | None], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content, change in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if change:
                change(info)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, *members: tuple[str, bytes], way: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", way) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def link(kind: bytes, to: str = "/etc/passwd") -> Change:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname, info.size = kind, to, 0

    return change


@pytest.mark.parametrize("ending", ["tgz", "tar.gz", "tar", "tar.xz"])
def test_a_member_of_a_tar_is_read(tmp_path: Path, ending: str) -> None:
    mode = {"tgz": "w:gz", "tar": "w"}.get(ending, "w:" + ending[4:])
    path = tar(
        tmp_path / f"a.{ending}", ("./x/a.en", TEXT, None), ("x/b", b"other\n", None), mode=mode
    )
    assert list(lines(path, "x/a.en")) == TEXT.splitlines()
    assert list(lines(path, "x/b")) == [b"other"]


def test_a_compressed_member_is_decompressed(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", ("a.en.gz", gzip.compress(TEXT), None), mode="w")
    assert list(lines(path, "a.en.gz")) == TEXT.splitlines()


def test_a_member_of_a_zip_is_read_by_its_pattern(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", ("README", b"x"), ("Books.de-en.de", TEXT))
    assert list(lines(path, "*.de")) == TEXT.splitlines()


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), *PACK.items()])
def test_a_text_without_an_archive_is_read(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(pack(b"\xef\xbb\xbf" + TEXT[:-1]))
    assert list(lines(path, "")) == TEXT.splitlines()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("a.en", link(tarfile.SYMTYPE), id="symlink"),
        pytest.param("a.en", link(tarfile.LNKTYPE), id="hardlink"),
        pytest.param("a.en", link(tarfile.CHRTYPE), id="device"),
        pytest.param("a.en", link(tarfile.FIFOTYPE), id="pipe"),
        pytest.param("a.en", link(tarfile.DIRTYPE), id="folder"),
    ],
)
def test_a_member_that_is_not_a_regular_file_is_refused(
    tmp_path: Path, name: str, change: Change | None
) -> None:
    path = tar(tmp_path / "a.tgz", (name, TEXT, change))
    with pytest.raises(BadData, match=r"a.tgz: .* is not a regular file"):
        list(lines(path, "*.en"))


def test_other_hostile_members_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    hostile = [
        ("../escaped", b"x", None),
        (str(tmp_path / "absolute"), b"x", None),
        ("link", b"", link(tarfile.SYMTYPE, str(tmp_path))),
        ("link/escaped", b"x", None),
    ]
    path = tar(folder / "a.tgz", *hostile, ("a.en", TEXT, None))
    assert list(lines(path, "a.en")) == TEXT.splitlines()
    assert list(tmp_path.rglob("*")) == [folder, path]


@pytest.mark.parametrize("ending", ["tgz", "zip"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_missing_or_repeated_member_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    members = [("a.en", TEXT), ("b.en", TEXT), ("a.en", TEXT)]
    if ending == "zip":
        zipped(path, *members)
    else:
        tar(path, *((name, content, None) for name, content in members))
    with pytest.raises(BadData, match=r"no member c.en: its first members are a.en, b.en"):
        list(lines(path, "c.en"))
    with pytest.raises(BadData, match=r"more than one member a\.en"):
        list(lines(path, "a.en"))


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("a.en")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(BadData, match="not a regular file"):
        list(lines(path, "a.en"))


@pytest.mark.parametrize("ending", ["tgz", "zip", "gz", "tar.gz inside"])
def test_a_decompression_bomb_is_refused(tmp_path: Path, ending: str) -> None:
    bomb = b"a line\n" * 3_000_000  # a thousand times as much as its archive
    member = "" if ending == "gz" else "a.en"
    path = tmp_path / f"a.{ending.partition(' ')[0]}"
    if ending == "gz":
        path.write_bytes(gzip.compress(bomb))
    elif ending == "zip":
        zipped(path, ("a.en", bomb))
    else:
        before = ("before", bomb, None) if "inside" in ending else ("after", b"", None)
        tar(path, before, ("a.en", TEXT if "inside" in ending else bomb, None))
    come: list[bytes] = []
    with pytest.raises(BadData, match="unpacks to more than"):
        come.extend(lines(path, member))
    assert 7 * len(come) < len(bomb) / 2


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_bytes(b"x" * ((1 << 24) + 2))
    with pytest.raises(BadData, match="a line of more than 16 MiB"):
        list(lines(path, ""))


@pytest.mark.parametrize("ending", ["tgz", "bzip2.zip", "zip", *PACK])
@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "flipped"])
def test_a_damaged_archive_is_refused_by_name(tmp_path: Path, ending: str, damage: str) -> None:
    path = tmp_path / f"a.{ending}"
    text = b"".join(b"%d and %d\n" % (number, number * number) for number in range(20_000))
    if ending == "tgz":
        tar(path, ("a.en", text, None))
    elif ending.endswith("zip"):
        way = zipfile.ZIP_BZIP2 if "bzip2" in ending else zipfile.ZIP_DEFLATED
        zipped(path, ("a.en", text), way=way)
    else:
        path.write_bytes(PACK[ending](text))
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:middle],
            "empty": b"",
            "garbage": b"<html>not here</html>",
            "flipped": whole[:middle] + bytes(50) + whole[middle + 50 :],
        }[damage]
    )
    with pytest.raises(BadData, match=r"^a\..* is (damaged|truncated)"):
        list(lines(path, "" if ending in PACK else "a.en"))


def test_a_disk_error_is_not_a_damaged_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zipped(tmp_path / "a.zip", ("a.en", TEXT))

    def broken(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", broken)
    with pytest.raises(OSError, match="Input/output error"):
        list(lines(path, "a.en"))


def test_an_unsupported_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.rar").write_bytes(b"Rar!")
    with pytest.raises(BadData, match="expected zip, tar or tgz"):
        list(lines(tmp_path / "a.rar", "a.en"))


def read(
    folder: Path, content: bytes, form: str, *, keep: frozenset[str] = frozenset()
) -> list[str]:
    (folder / "a").write_bytes(content)
    source = Source((Location("a"), Location("a")), form, keep)
    return list(sentences(source, 0, {"a": folder / "a"}))


def test_sentences_of_talks_are_read_without_tags(tmp_path: Path) -> None:
    talk = (
        b"<url>http://x</url>\n<keywords>a, b</keywords>\n<talkid>1</talkid>\n"
        b"<title>A title</title>\n<description>TED: it says</description>\n"
        b'<reviewer href="x">R</reviewer>\n One & two.\n 1 < 2 < 3.\n</doc>\n'
    )
    assert read(tmp_path, talk, "talks") == ["One & two.", "1 < 2 < 3."]
    lines = read(tmp_path, talk, "talks", keep=frozenset({"title", "description"}))
    assert lines == ["A title", "TED: it says", "One & two.", "1 < 2 < 3."]


def test_segments_have_the_white_space_and_entities_of_xml(tmp_path: Path) -> None:
    content = (
        b'<refset setid="x" srclang="any">\n<doc docid="1">\n<hl>\n'
        b'<seg id="1">S&amp;P &quot;500&quot;</seg>\n</hl>\n'
        b'<SEG id="2">  two\n  lines </SEG>\n<seg id="3">&amp;lt; stays</seg></doc></refset>\n'
    )
    assert read(tmp_path, content, "segments") == ['S&P "500"', "two lines", "&lt; stays"]


def test_segments_against_sacrebleu(tmp_path: Path) -> None:
    """The same sentences, but for entities, which it leaves to its tokeniser."""
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    content = (
        '<doc docid="a">\n<seg id="1"> Ein  Satz: \u00e4\u00a0b </seg>\n<seg id="2">S&amp;P</seg>\n'
    )
    (tmp_path / "a.sgm").write_text(content, encoding="utf-8")
    reader = FakeSGMLDataset("a", data=[], langpairs={})
    reader._convert_format(str(tmp_path / "a.sgm"), str(tmp_path / "a.txt"))  # type: ignore[no-untyped-call]
    theirs = (tmp_path / "a.txt").read_text(encoding="utf-8").splitlines()
    ours = read(tmp_path, content.encode(), "segments")
    assert ours == [theirs[0], theirs[1].replace("&amp;", "&")]


@pytest.mark.parametrize("content", [b"<html>", b"<seg id='1'>one</seg>\n<seg id='2'>two\n"])
def test_unclosed_segments_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadData, match="complete <seg> elements"):
        read(tmp_path, content, "segments")


def test_columns_of_a_table_are_read_and_missing_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"one\teins\t0.9\ntwo\tzwei\t0.8\n")
    source = Source((Location("a", "", 1), Location("a", "", 0)), "plain")
    assert list(sentences(source, 0, {"a": path})) == ["eins", "zwei"]
    path.write_bytes(b"one\teins\ntwo\n")
    with pytest.raises(BadData, match="line 2 has 1 columns: expected 2 or more"):
        list(sentences(source, 0, {"a": path}))


def test_only_unusable_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    left = (
        "good\n\nmiddle\rof it\nno\x00pe\ncafe\u0301\u2028 stays \r\n".encode() + b"\xff\xfe\nend"
    )
    (tmp_path / "en").write_bytes(left)
    (tmp_path / "de").write_bytes(b"gut\nb\nc\nd\ne\nf\nEnde\n")
    source = Source((Location("en"), Location("de")), "plain")
    dropped: Counter[str] = Counter()
    found = list(
        pairs([source], {language: tmp_path / language for language in ("en", "de")}, dropped)
    )
    assert found == [("good", "gut"), ("cafe\u0301\u2028 stays ", "e"), ("end", "Ende")]
    assert dropped == {
        "empty on one side or both": 1,
        "with a carriage return or a NUL inside": 2,
        "with bytes that are no UTF-8": 1,
    }
    assert reason_to_drop("a", "b") is None


@pytest.mark.parametrize("longer", ["en", "de"])
def test_sides_of_different_length_are_refused_by_name(tmp_path: Path, longer: str) -> None:
    for language in ("en", "de"):
        (tmp_path / language).write_text("a\nb\nc\n" if language == longer else "a\nb\n")
    source = Source((Location("en"), Location("de")), "plain")
    with pytest.raises(BadData, match=f"^{longer} has more than the 2 sentences of"):
        list(
            pairs([source], {language: tmp_path / language for language in ("en", "de")}, Counter())
        )
