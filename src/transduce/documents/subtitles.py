"""SubRip and WebVTT: the texts of cues are translated; times, numbers and settings stay.

pysubs2 would lose identifiers, settings and styles of WebVTT, and write SubRip's numbers again.
"""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from transduce.documents.base import Document, DocumentOptions, Unit
from transduce.documents.lines_of_cues import divide, wrap
from transduce.documents.textfile import (
    BYTE_ORDER_MARK,
    RawTag,
    TextDocument,
    decode,
    line_end,
    one_line,
    pair_tags,
    renumber,
    target_of,
    trim,
)
from transduce.errors import BadInput
from transduce.markup import Inline, Tag, has_words, inline_text

TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
TIMES = re.compile(rf"[ \t]*{TIME}[ \t]*-->[ \t]*{TIME}(?:[ \t][^\n]*)?\r?\n?")
MARKUP = re.compile(r"<(?P<close>/)?(?P<name>[A-Za-z]\w*)[^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}|[♪♫]")
DASH = re.compile(r"[-‐‑–—](?:[ \t]+(?=\S)|(?=[^\s\d-]))")  # before a speaker's words; not -5
VOICE = re.compile(r"<v[ .]")
ENTITY = re.compile(r"&(?:[A-Za-z]\w{1,30}|#\d{1,6}|#x[\da-fA-F]{1,5});")
SENTENCE_END = re.compile(r"[.!?…。！？♪:;]['\"’”»)\]]*$")
MOST_CUES, LONGEST_GAP = 4, 1.5  # of a sentence over several cues; seconds between them


@dataclass(slots=True)
class Speech:
    """What one speaker says in a cue: prefix and suffix stay, the text between is translated."""

    prefix: str
    content: Inline
    suffix: str
    unit: Unit | None = None  # the text, and that of further cues of the same sentence
    share: tuple[int, tuple[int, ...]] = (0, (1,))  # which part of the unit, and all lengths


@dataclass(slots=True)
class Cue:
    """A cue: its times in seconds, where its text is, and what it says."""

    begin: float
    end: float
    start: int
    stop: int
    speeches: list[Speech]
    number: int


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read subtitles; a sentence over several cues is translated once and divided."""
    text = decode(data)
    is_web = re.match(r"WEBVTT(?:\s|\Z)", text) is not None
    document = TextDocument(text=text, marked=data.startswith(BYTE_ORDER_MARK))
    cues = [
        Cue(begin, end, *lines, _speeches(text[slice(*lines)], is_web=is_web), number)
        for number, (begin, end, start, stop) in enumerate(_cues(text, is_web=is_web), 1)
        for lines in _blocks(text, start, stop)
    ]
    if not cues and not is_web:
        raise BadInput(
            "it has no subtitle: expected a line of times such as 00:00:01,000 --> 00:00:02,500"
        )
    end = line_end(text)
    for group in _sentences(cues):
        _add(document, group, options.width, end, is_web=is_web)
    document.parts.sort(key=lambda part: part.start)
    return document


def _cues(text: str, *, is_web: bool) -> Iterator[tuple[float, float, int, int]]:
    """Yield the times of each cue, and where its text is."""
    positions = [0, *(match.end() for match in re.finditer("\n", text))]
    starts = [position for position in positions if TIMES.match(text, position)]
    for start, following in pairwise([*starts, len(text)]):
        if is_web and _is_comment(text, start):
            continue
        match = TIMES.match(text, start)
        assert match is not None
        groups = match.groups()
        stop = following
        if following < len(text) and not is_web:  # without the number of the next cue
            before = text.rfind("\n", 0, following - 1) + 1
            stop = before if re.fullmatch(r"\s*\d+\s*", text[before:following]) else following
        if is_web:
            blank = re.search(r"^[ \t]*\r?$", text[match.end() : stop], re.MULTILINE)
            stop = match.end() + blank.start() if blank else stop
        yield _seconds(groups[:4]), _seconds(groups[4:]), match.end(), max(stop, match.end())


def _is_comment(text: str, position: int) -> bool:
    """Return whether a line belongs to a block NOTE, STYLE or REGION."""
    block = text[max(0, position - 2000) : position].replace("\r", "")
    begin = block.rpartition("\n\n")[2]
    return re.match(r"\s*(?:NOTE|STYLE|REGION)(?:\s|\Z)", begin) is not None


def _seconds(groups: Iterable[str | None]) -> float:
    hours, minutes, seconds, fraction = (int(group or 0) for group in groups)
    return hours * 3600 + minutes * 60 + seconds + fraction / 1000


def _blocks(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of lines that are not blank, without the last line end."""
    for match in re.finditer(r"(?m:^[ \t]*[^\s][^\n]*(?:\n|\Z))+", text[start:stop]):
        yield start + match.start(), start + match.start() + len(match[0].rstrip("\r\n"))


def _speeches(text: str, *, is_web: bool) -> list[Speech]:
    """Divide a text at dashes and voices; join the lines of each speaker."""
    groups: list[tuple[bool, list[str]]] = []  # whether it begins with a dash, its lines
    previous, is_dialogue = "", False
    for line in (line.strip() for line in text.split("\n")):
        words = MARKUP.sub(_without_tag, line)
        dash = DASH.match(words)
        has_dash = dash is not None
        if dash is not None:  # the first speaker may have none
            begins = words[dash.end() : dash.end() + 1].isupper()
            is_dialogue |= begins or not previous or SENTENCE_END.search(previous) is not None
        if (has_dash and is_dialogue) or VOICE.match(line) or not groups:
            groups.append((has_dash, [line]))
        else:
            groups[-1][1].append(line)
        previous = words
    speeches = []
    for has_dash, group in groups:
        before, content, after = trim(_inline(" ".join(group), is_web=is_web))
        prefix, suffix = _raw(before, is_web=is_web), _raw(after, is_web=is_web)
        if has_dash and content and isinstance(content[0], str):
            dash = re.match(r"[-‐‑–—][ \t]*", content[0])
            if dash is not None:
                words = content[0][dash.end() :]
                inner, rest, end = trim((words, *content[1:]) if words else content[1:])
                prefix += dash[0] + _raw(inner, is_web=is_web)
                content, suffix = rest, _raw(end, is_web=is_web) + suffix
        speeches.append(Speech(prefix, renumber(content), suffix))
    return speeches


def _without_tag(match: re.Match[str]) -> str:
    return "" if match[0][0] in "<{" else match[0]


def _inline(text: str, *, is_web: bool) -> Inline:
    pieces: list[str | RawTag] = []
    position = 0
    for match in MARKUP.finditer(text):
        pieces.append(_plain(text[position : match.start()], is_web=is_web))
        name = (match["name"] or "").lower()
        if not name:
            pieces.append(RawTag("single", "", match[0]))
        else:
            pieces.append(RawTag("close" if match["close"] else "open", name, match[0]))
        position = match.end()
    pieces.append(_plain(text[position:], is_web=is_web))
    return pair_tags(piece for piece in pieces if piece)


def _plain(text: str, *, is_web: bool) -> str:
    return ENTITY.sub(lambda match: html.unescape(match[0]), text) if is_web else text


def _raw(content: Inline, *, is_web: bool) -> str:
    """Return content as it is in the file."""
    return "".join(
        str(part.data) if isinstance(part, Tag) else _escaped(one_line(part), is_web=is_web)
        for part in content
    )


def _escaped(text: str, *, is_web: bool) -> str:
    if not is_web:
        return text
    for letter, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ("\xa0", "nbsp")):
        text = text.replace(letter, f"&{name};")
    return text


def _sentences(cues: list[Cue]) -> Iterator[list[Cue]]:
    """Group cues that have parts of the same sentence."""
    group: list[Cue] = []
    for cue in cues:
        if group and not (len(group) < MOST_CUES and _continues(group[-1], cue)):
            yield group
            group = []
        group.append(cue)
    if group:
        yield group


def _continues(left: Cue, right: Cue) -> bool:
    """Return whether a sentence goes on in the next cue; only for texts without inner tags."""
    if not 0 <= right.begin - left.end <= LONGEST_GAP or left.number == right.number:
        return False
    contents = [speech.content for cue in (left, right) for speech in cue.speeches]
    if len(contents) != 2 or not all(
        len(content) == 1 and isinstance(content[0], str) and has_words(content[0])
        for content in contents
    ):
        return False
    first, second = map(inline_text, contents)
    is_song = "♪" in left.speeches[0].suffix + right.speeches[0].prefix
    has_dash = DASH.match(right.speeches[0].prefix.lstrip() + "x") is not None
    return not (SENTENCE_END.search(first) or is_song or has_dash) and (
        second[0].islower() or first.endswith(",")
    )


def _add(document: TextDocument, group: list[Cue], width: int, end: str, *, is_web: bool) -> None:
    """Add the units of a cue, or of several cues of the same sentence."""
    if len(group) > 1:
        texts = [inline_text(cue.speeches[0].content) for cue in group]
        lengths = tuple(map(len, texts))
        unit = Unit((" ".join(texts),), f"cue {group[0].number:,} to {group[-1].number:,}")
        for index, cue in enumerate(group):
            cue.speeches[0].unit, cue.speeches[0].share = unit, (index, lengths)
        document.units.append(unit)
    for cue in group:
        for speech in cue.speeches:
            if speech.unit is None and has_words(inline_text(speech.content)):
                speech.unit = Unit(speech.content, f"cue {cue.number:,}")
                document.units.append(speech.unit)
        _add_cue(document, cue, width, end, is_web=is_web)


def _add_cue(document: TextDocument, cue: Cue, width: int, end: str, *, is_web: bool) -> None:
    def render() -> str:
        most = 2 if len(cue.speeches) == 1 else 1
        lines = []
        for speech in cue.speeches:
            content = speech.content
            if speech.unit is not None:
                index, lengths = speech.share
                content = divide(target_of(speech.unit), lengths)[index]
            pieces = wrap(content, width if most == 2 else 1 << 30)
            text = end.join(_raw(piece, is_web=is_web) for piece in pieces)
            lines.append(speech.prefix + text + speech.suffix)
        return end.join(lines)

    units = [speech.unit for speech in cue.speeches if speech.unit is not None]
    if units:
        document.add_part(cue.start, cue.stop, units, render)
