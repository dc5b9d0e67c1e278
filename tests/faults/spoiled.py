"""Spoiled documents: each is translated correctly or refused in one sentence; nothing else."""

import io
import random
import re
import struct
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from conftest import tiny_pairs, write_pairs
from document_corpus import fake
from document_corpus.corpus import documents
from text_documents import with_texts

from faults.in_process import SMALLEST, command, complaint
from faults.tally import Tally
from transduce.documents.formats import FORMATS
from transduce.markup import Inline, inline_text
from transduce.translation.translation import Candidate, Translation
from transduce.translation.translator import Translator

COUNT = 500
SECONDS, MEMORY = 10.0, 1 << 30  # of one document
XML = ("xliff", "tmx")
DOCUMENT = "word/document.xml"
Spoil = Callable[[bytes, str, random.Random], bytes]


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Spoil `count` documents, and translate them with the command line in this process."""
    tally = Tally("spoiled: translated or refused in one sentence", seed)
    run = _run(folder)
    slowest, largest = 0.0, 0
    with mock.patch.object(Translator, "stream", _stream):
        for number, (what, name, data) in enumerate(_spoiled(count, seed)):
            path, out = folder / f"{number:03}-{name}", folder / f"{number:03}.out"
            out.unlink(missing_ok=True)
            path.write_bytes(data)
            begin, before = time.process_time(), _memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
            chosen = _options(path.suffix)
            result = command("translate", run, path, "--out", out, *chosen)
            took, more = time.process_time() - begin, _memory("VmHWM") - before
            slowest, largest = max(slowest, took), max(largest, more)
            fault = _fault(result.status, complaint(result), out)
            if took > SECONDS:
                fault = f"{took:.0f} s"
            elif more > MEMORY:
                fault = f"{more >> 20} MiB"
            if fault:
                tally.fail(f"{path.name} (seed {seed}, {what}): {fault}")
            else:
                tally.hold("refused in one sentence" if result.status else "translated")
                path.unlink()
    tally.figures["slowest document"] = f"{slowest:.1f} s of processor time"
    tally.figures["most memory for a document"] = f"{largest >> 20} MiB"
    return [tally]


def _options(suffix: str) -> list[str]:
    return ["--columns", "text"] if suffix in (".csv", ".tsv") else []


def _fault(status: int, complaint_: str, out: Path) -> str:
    """Return what is wrong: an output that cannot be read, or an error that is not a sentence."""
    if status == 0:
        return "" if out.exists() else "nothing was written"
    return complaint_ or ("an output was written" if out.exists() else "")


def _stream(
    translator: Translator, contents: Iterable[Inline], *, advance: Any, **_: Any
) -> Iterator[Translation]:
    for content in contents:
        advance(1)
        translated = with_texts(content, fake.word)
        text = inline_text(content)
        yield Translation(text, (Candidate(text, 0.0, 0.0, ()),), content=translated)


def _run(folder: Path) -> Path:
    from transduce.training.train import train

    run = folder / "run"
    if not run.exists():
        texts = write_pairs(folder, "tiny", tiny_pairs(60))
        train(*texts, out=run, settings=SMALLEST, preset="tiny", device="cpu")
    return run


def _memory(name: str) -> int:
    """Return the memory of this process (VmRSS) or its peak (VmHWM), in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


def _spoiled(count: int, seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield what was done, the name of the file, and its content."""
    draw = random.Random(seed)
    originals = [made for made in documents(50, seed, 0.2) if made.kind.format != "text"]
    spoils = [*SPOILS.items()]
    for number in range(count):
        made = originals[number % len(originals)]
        what, spoil = spoils[number % len(spoils)]
        if made.kind.format == "docx" and number % 3:  # the text inside of the archive
            data = _spoiled_inside(made.data, spoil, draw)
            what = f"{what} in {DOCUMENT}"
        else:
            data = spoil(made.data, made.kind.format, draw)
        name = made.name if what != "swapped suffix" else _other_name(made.name, draw)
        yield what, name, data


def _spoiled_inside(data: bytes, spoil: Spoil, draw: random.Random) -> bytes:
    return _with_part(data, lambda part: spoil(part, "xliff", draw))


def _other_name(name: str, draw: random.Random) -> str:
    rows = [row for row in FORMATS.values() if row.name != "text"]
    return f"{name.partition('.')[0]}.{draw.choice(rows).suffixes[0]}"


def _with_part(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    result = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, change(part) if name == DOCUMENT else part)
    return result.getvalue()


def truncated(data: bytes, _: str, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def bits_flipped(data: bytes, _: str, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _number in range(draw.randint(1, 8)):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def bytes_removed(data: bytes, _: str, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    return data[:start] + data[start + draw.randrange(200) :]


def repeated(data: bytes, _: str, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    return data[:start] + data[start : start + 300] * 50 + data[start:]


def nuls(data: bytes, _: str, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    return data[:start] + bytes(draw.randint(1, 2000)) + data[start:]


def other_encoding(data: bytes, _: str, draw: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(draw.choice(("utf-16", "utf-32", "latin-1", "cp037")), "replace")


def deep(data: bytes, name: str, draw: random.Random) -> bytes:
    """Nest 200,000 elements at a place where the format has elements."""
    opened, closed = {
        **dict.fromkeys(XML, (b"<g id='1'>", b"</g>")),
        "html": (b"<b>", b"</b>"),
        "json": (b"[", b"]"),
        "jsonl": (b'{"a":', b"}"),
        "markdown": (b"> ", b""),
    }.get(name, (b"<i>", b"</i>"))
    places = [match.start() for match in re.finditer(rb"[>\n ]", data)] or [0]
    start = draw.choice(places) + 1
    times = 200_000 if name != "markdown" else 5_000
    return data[:start] + opened * times + b"x" + closed * times + data[start:]


def huge_attribute(data: bytes, name: str, draw: random.Random) -> bytes:
    places = [match.end() for match in re.finditer(rb"<[a-z:]+", data)]
    start = draw.choice(places) if places else len(data) // 2
    return data[:start] + b' a="' + b"x y&lt;" * 1_500_000 + b'"' + data[start:]


def entity_bomb(data: bytes, name: str, draw: random.Random) -> bytes:
    entities = '<!ENTITY a0 "aaaaaaaaaa">' + "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)
    )
    return _with_doctype(data, entities, "&a11;")


def external_entity(data: bytes, name: str, draw: random.Random) -> bytes:
    place = draw.choice(("file:///etc/passwd", "http://127.0.0.1:9/x", "/dev/zero"))
    return _with_doctype(data, f'<!ENTITY a SYSTEM "{place}">', "&a;")


def _with_doctype(data: bytes, entities: str, use: str) -> bytes:
    root = re.search(rb"<([a-zA-Z][\w:.]*)[\s>]", data)
    if root is None:
        return data + use.encode()
    doctype = b"<!DOCTYPE " + root[1] + b" [" + entities.encode() + b"]>"
    data = re.sub(rb"<!DOCTYPE[^>]*>", b"", data)
    start = data.index(b"<" + root[1])
    end = data.find(b">", start + 200) + 1 or len(data)
    return data[:start] + doctype + data[start:end] + use.encode() + data[end:]


def wrong_root(data: bytes, name: str, draw: random.Random) -> bytes:
    root = re.search(rb"<([a-zA-Z][\w:.]*)[\s>]", data)
    return data.replace(root[1], b"other") if root else b"<other/>" + data


def zip_sizes(data: bytes, name: str, draw: random.Random) -> bytes:
    """Change the sizes, checksums or offsets that the archive declares."""
    changed = bytearray(data)
    places = [match.start() for match in re.finditer(b"PK\x01\x02", data)]
    if not places:
        return bits_flipped(data, name, draw)
    for place in draw.sample(places, min(3, len(places))):
        struct.pack_into("<I", changed, place + draw.choice((16, 20, 24, 42)), draw.getrandbits(32))
    return bytes(changed)


def zip_bomb(data: bytes, name: str, draw: random.Random) -> bytes:
    if name != "docx":
        return data + b" " * 30_000_000 + b"x"
    return _with_part(data, lambda part: part + b" " * draw.choice((40_000_000, 300_000_000)))


def missing_part(data: bytes, name: str, draw: random.Random) -> bytes:
    """Drop parts of an archive, or let its relations lead in a circle."""
    if name != "docx":
        lines = data.splitlines(keepends=True)
        del lines[draw.randrange(len(lines))]
        return b"".join(lines)
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        parts = old.namelist()
        dropped = set(draw.sample(parts, draw.randint(0, 3)))
        for part in parts:
            content = old.read(part)
            if part.endswith(".rels"):
                content = re.sub(rb'Target="[^"]*"', b'Target="document.xml"', content)
            if part not in dropped:
                new.writestr(part, content)
    return result.getvalue()


def swapped_suffix(data: bytes, name: str, draw: random.Random) -> bytes:
    return data


SPOILS: dict[str, Spoil] = {
    function.__name__.replace("_", " "): function
    for function in (
        *(truncated, bits_flipped, bytes_removed, repeated, nuls, other_encoding, deep),
        *(huge_attribute, entity_bomb, external_entity, wrong_root, zip_sizes, missing_part),
        *(zip_bomb, swapped_suffix),
    )
}
