"""Subtitles with speakers, styles and notes, read with pysubs2 and line by line."""

import html
import re

import pysubs2

from document_corpus.author import Author
from document_corpus.reading import Reading

SPANS = ("url", "email", "file", "unit", "brace", "option")
TAG = re.compile(r"</?[a-z][^<>]*>|\{\\an\d\}|[♪♫]")
TIMES = re.compile(r"\S+ --> \S+.*")


PAUSE = 200  # milliseconds between the cues of one sentence; no others are so close


def _times(begin: int, mark: str) -> str:
    clocks = (
        f"{t // 3_600_000:02}:{t // 60_000 % 60:02}:{t // 1000 % 60:02}{mark}{t % 1000:03}"
        for t in (begin, begin + 2000)
    )
    return " --> ".join(clocks)


def _speech(author: Author, voice: str) -> str:
    first, second = author.sentence(0.4), author.sentence(0.4)
    match author.draw.randrange(8):
        case 0:
            return f"<i>{first}</i>"
        case 1:
            return f"- {first}\n- {second}"
        case 2:
            return f"{first} <b>{author.words()}</b> {author.words()}."
        case 3:
            return f"♪ {author.words(3, 6)} ♪"
        case 4:
            return f"{voice}{first}"
        case _:
            return f"{author.text(3, 6, 0.4)}\n{author.words(3, 6)}."


def _cues(author: Author, mark: str, voice: str) -> list[tuple[str, str]]:
    cues, begin = [], 1000
    for _ in author.times(30):
        begin += author.draw.choice((2100, 3500, 9000))
        settings = " align:start line:10%" if mark == "." and author.chance(0.2) else ""
        times = f"{_times(begin, mark)}{settings}"
        if author.chance(0.15):
            cues.append((times, f"{author.words(4, 7)},"))
            begin += 2000 + PAUSE
            second = f"{author.draw.choice(('and', 'but'))} {author.words(3, 6)}."
            cues.append((_times(begin, mark), second))
        else:
            cues.append((times, _speech(author, voice)))
    return cues


def make_srt(author: Author) -> bytes:
    cues = _cues(author, ",", "{\\an8}")
    number = author.draw.choice((1, 7))
    blocks = [f"{n}\n{times}\n{text}\n" for n, (times, text) in enumerate(cues, number)]
    return _encoded(author, "\n".join(blocks))


def make_vtt(author: Author) -> bytes:
    blocks = ["WEBVTT - Kit\nKind: captions\n", "STYLE\n::cue(b) { color: red }\n"]
    for number, (times, text) in enumerate(_cues(author, ".", "<v Anna>")):
        name = f"cue-{number}\n" if author.chance(0.5) else ""
        blocks.append(f"{name}{times}\n{text.replace('&', '&amp;')}\n")
        if author.chance(0.1):
            blocks.append(f"NOTE\n{author.words()}\n")
    return _encoded(author, "\n".join(blocks))


def _encoded(author: Author, text: str) -> bytes:
    text = text.replace("\n", "\r\n") if author.shape % 2 else text
    return (b"\xef\xbb\xbf" if author.shape % 3 == 0 else b"") + text.encode()


def _read(data: bytes, name: str) -> Reading:
    reading = Reading()
    text = data.decode("utf-8-sig")
    reading.frame.append(str((data[:3] == b"\xef\xbb\xbf", "\r\n" in text)))
    text = text.replace("\r\n", "\n")
    pauses, last = list[int](), 0
    for event in pysubs2.SSAFile.from_string(text, name):
        reading.frame.append(f"{event.start} {event.end}")
        pauses.append(event.start - last)
        last = event.end
    cue, number = "", 0
    for part in text.strip("\n").split("\n\n"):
        lines = part.split("\n")
        place = next((n for n, line in enumerate(lines) if TIMES.match(line)), None)
        if place is None:
            reading.frame.append(part)
            continue
        said = lines[place + 1 :]
        speakers = sum(line.startswith("- ") for line in said)
        reading.frame += [*lines[: place + 1], f"{speakers} speakers"]
        assert "".join(said).strip(), part
        # A sentence over two cues is divided again: all its words belong to the first.
        cue = cue if pauses[number] == PAUSE else lines[place]
        number += 1
        body = " ".join(said)
        block = reading.block(f"cue {cue}")
        block.loose.update(TAG.findall(body))
        body = TAG.sub(" ", body)
        block.add("", f" {html.unescape(body) if name == 'vtt' else body}")
    return reading


def read_srt(data: bytes, *, translated: bool) -> Reading:
    del translated
    return _read(data, "srt")


def read_vtt(data: bytes, *, translated: bool) -> Reading:
    del translated
    return _read(data, "vtt")
