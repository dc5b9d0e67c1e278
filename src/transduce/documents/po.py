"""gettext PO: fill in the translations of messages.

Only changed lines are written: polib would wrap all messages and write the header again.
"""

import gettext
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from transduce.documents.base import Document, DocumentOptions, Unit
from transduce.documents.textfile import (
    BYTE_ORDER_MARK,
    Part,
    TextDocument,
    decode,
    line_end,
    line_units,
)
from transduce.errors import BadInput
from transduce.markup import find_spans
from transduce.system.formatting import pluralize

WIDTH = 79  # of gettext's own tools
# The usual plural forms, as in the manual of gettext, by language.
ONE, ONE_OR_ZERO = "nplurals=2; plural=(n != 1);", "nplurals=2; plural=(n > 1);"
EAST_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
)
PLURAL_FORMS = {
    **dict.fromkeys(("en", "de", "nl", "sv", "da", "no", "nb", "nn", "fo", "es", "it", "pt"), ONE),
    **dict.fromkeys(("el", "hu", "fi", "et", "eu", "bg", "he", "ca", "gl", "tr"), ONE),
    **dict.fromkeys(("fr", "pt_BR", "oc", "br"), ONE_OR_ZERO),
    **dict.fromkeys(("ja", "ko", "zh", "vi", "th", "id", "ms"), "nplurals=1; plural=0;"),
    **dict.fromkeys(("ru", "uk", "be", "sr", "hr", "bs"), EAST_SLAVIC),
    **dict.fromkeys(("cs", "sk"), "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;"),
    "pl": "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "ro": "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);",
    "lt": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lv": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);",
    "sl": "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);",
}
LINE = re.compile(
    r"[ \t]*+(?:(?P<comment>#[^\n]*)|"
    r"(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,2}\])?)?"
    r'[ \t]*+"(?P<text>(?:[^"\\\n]|\\.)*+)"[ \t]*+|)(?:\n|\Z)'
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))")
UNESCAPES = {"\\": "\\\\", '"': '\\"', **{letter: f"\\{name}" for name, letter in ESCAPES.items()}}


@dataclass(slots=True)
class Entry:
    """A message: its strings by keyword, and where its parts are."""

    number: int  # of its first line
    start: int = -1  # of its first line that is no comment; flags are inserted before it
    flags: tuple[int, int] | None = None  # of the text of a line of flags
    flag_names: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    block: tuple[int, int] = (-1, -1)  # from the first msgstr to the end of the last

    def add_flags(self, line: str, position: int) -> None:
        """Add the flags of a comment that begins with #, and a comma."""
        if line.lstrip().startswith("#,"):
            self.flags = position + line.index("#,"), position + len(line.rstrip())
            self.flag_names |= {name.strip() for name in line.strip()[2:].split(",")}

    def add(self, keyword: str, text: str, position: int, length: int) -> None:
        """Add a line of a string."""
        self.start = position if self.start < 0 else self.start
        self.texts[keyword] = self.texts.get(keyword, "") + text
        if keyword.startswith("msgstr"):
            first = position if self.block[0] < 0 else self.block[0]
            self.block = first, position + length


@dataclass(slots=True)
class Slot:
    """A string of a translation that is filled in."""

    keyword: str
    units: list[Unit]
    text: Callable[[], str]


@dataclass(slots=True)
class PODocument(TextDocument):
    """Messages; a translation may be the same as its message."""

    header: list[Part] = field(default_factory=list)

    def is_changed(self, part: Part) -> bool:
        """Return whether all lines of a message are translated."""
        if any(part is other for other in self.header):
            return any(unit.target is not None for unit in self.units)
        return all(unit.target is not None for unit in part.units)


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read a PO file, or a template (POT), which becomes a PO file."""
    _check_charset(data)
    text = decode(data)
    document = PODocument(text=text, marked=data.startswith(BYTE_ORDER_MARK))
    end = line_end(text)
    found = list(entries(text))
    header = next((entry for entry in found if _is_header(entry)), None)
    forms = _header(document, header, options.languages[1], end, needed=any(map(_is_plural, found)))
    width = _width(text)
    skipped, done, without = 0, 0, 0
    for entry in found:
        if _is_header(entry):
            continue
        strings = {key: value for key, value in entry.texts.items() if key.startswith("msgstr")}
        is_fuzzy = "fuzzy" in entry.flag_names
        if all(strings.values()) and not (is_fuzzy or options.overwrite):
            done += 1
            continue
        if _is_plural(entry) and forms is None:
            skipped += 1
            continue
        replaced = is_fuzzy or options.overwrite
        slots = [
            slot for slot in _slots(entry, forms) if replaced or not entry.texts.get(slot.keyword)
        ]
        units = [unit for slot in slots for unit in slot.units]
        if units:
            _add(document, entry, slots, strings, end, width)
        else:
            without += 1
    document.parts.sort(key=lambda part: part.start)
    _describe(document, options, skipped=skipped, done=done, without=without)
    return document


def _describe(
    document: Document, options: DocumentOptions, *, skipped: int, done: int, without: int
) -> None:
    if done:
        document.left_alone.append(pluralize(done, "message") + " that had a translation")
    if without:
        document.left_alone.append(pluralize(without, "message") + " without words")
    if skipped:
        document.left_alone.append(
            f"{pluralize(skipped, 'message')} with plural forms: the header has no Plural-Forms, "
            f"and those of {options.languages[1]!r} are not known"
        )


def entries(text: str) -> Iterator[Entry]:
    """Yield the messages that are not obsolete."""
    entry, keyword, position = Entry(1), "", 0
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), 1):
        match = LINE.fullmatch(line.replace("\r\n", "\n"))
        if match is None or (match["text"] is not None and not (match["keyword"] or keyword)):
            raise BadInput(f"line {number:,} is not a line of a PO file: {line.strip()!a:.60}")
        is_start = match["comment"] is not None or match["keyword"] in ("msgctxt", "msgid")
        if is_start and _is_complete(entry):
            yield entry
            entry, keyword = Entry(number), ""
        if match["comment"] is not None:
            keyword = ""
            if match["comment"].startswith("#~"):  # obsolete; the flags above are its own
                entry = Entry(number + 1)
            else:
                entry.add_flags(line, position)
        elif match["text"] is not None:
            keyword = match["keyword"] or keyword
            if match["keyword"] in entry.texts:
                raise BadInput(f"line {number:,} has a second {keyword} of the same message")
            entry.add(keyword, unescape(match["text"]), position, len(line.rstrip("\r\n")))
            _check(entry, number)
        position += len(line)
    if _is_complete(entry):
        yield entry
    elif entry.texts:
        raise BadInput(f"the message in line {entry.number:,} has no msgstr: the file is truncated")


def _is_complete(entry: Entry) -> bool:
    return any(keyword.startswith("msgstr") for keyword in entry.texts)


def _check(entry: Entry, number: int) -> None:
    """Refuse keywords in another order than that of gettext."""
    keywords, has_text = list(entry.texts), _is_complete(entry)
    if has_text and "msgid" not in keywords:
        raise BadInput(f"line {number:,} has a msgstr without a msgid before it")
    if has_text and ("msgid_plural" in keywords) != ("msgstr" not in keywords):
        raise BadInput(
            f"line {number:,}: expected msgstr[0] after msgid_plural, msgstr after msgid"
        )


def unescape(text: str) -> str:
    """Return the content of a string."""
    if "\\" not in text:
        return text

    def letter(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return chr(int(match[1], 8) if match[1] else int(match[2], 16))
        return ESCAPES.get(match[3], match[3])

    return ESCAPE.sub(letter, text)


def escape(text: str) -> str:
    """Return a text as it is between quotation marks."""
    return "".join(UNESCAPES.get(letter, letter) for letter in text)


def wrapped(keyword: str, text: str, end: str, width: int) -> str:
    """Return a keyword and its string as gettext's tools write them."""
    line = f'{keyword} "{escape(text)}"'
    if "\n" not in text[:-1] and len(line) <= width:
        return line
    lines = [f'{keyword} ""']
    for paragraph in re.findall(r"[^\n]*\n|[^\n]+", text):
        current = ""
        for word in re.findall(r"\S*\s+|\S+", paragraph):
            if current and len(escape(current + word)) + 2 > width:
                lines.append(f'"{escape(current)}"')
                current = ""
            current += word
        lines.append(f'"{escape(current)}"')
    return end.join(lines)


def _width(text: str) -> int:
    """Return the width of the file's lines: unlimited if a string is longer than gettext's."""
    wide = re.search(rf'^(?:msg\w+(?:\[\d\])? )?"[^\n]{{{WIDTH}}}', text, re.MULTILINE)
    breakable = wide and " " in wide[0].strip('"').partition('"')[2]
    return 1 << 30 if breakable else WIDTH


def _is_header(entry: Entry) -> bool:
    return not entry.texts["msgid"] and "msgctxt" not in entry.texts


def _is_plural(entry: Entry) -> bool:
    return "msgid_plural" in entry.texts


def _check_charset(data: bytes) -> None:
    declared = re.search(rb'"Content-Type:[^"\n]*charset=([\w.:-]+)', data)
    charset = declared[1].decode("ascii", "replace") if declared else "UTF-8"
    if charset.lower() not in ("utf-8", "utf8", "charset", "ascii", "us-ascii"):
        raise BadInput(f"it is in {charset}: convert it first, with msgconv --to-code=UTF-8")


class Forms:
    """The plural forms of a language."""

    def __init__(self, line: str) -> None:
        match = re.fullmatch(r"\s*nplurals\s*=\s*(\d)\s*;\s*plural\s*=([^;\n]{1,400});?\s*", line)
        if match is None:
            raise BadInput(
                f"its header has Plural-Forms {line.strip()!a:.60}: "
                "expected nplurals=2; plural=(n != 1); or similar"
            )
        self.count = int(match[1])
        try:  # it reads C's expressions, and refuses anything else
            form = gettext.c2py(match[2])
            self.of = [form(number) for number in range(200)]
        except (ValueError, ArithmeticError, RecursionError, OverflowError, TypeError):
            self.of = []
        if not self.of or not 1 <= self.count <= 6 or max(self.of) >= self.count:
            raise BadInput(f"its header has Plural-Forms that cannot be used: {line!a:.60}")

    def source(self, index: int, entry: Entry) -> str:
        """Return the message that a form translates: the singular or the plural."""
        singular, plural = entry.texts["msgid"], entry.texts["msgid_plural"]
        numbers = [number for number, form in enumerate(self.of) if form == index]
        if 1 not in numbers or self.count == 1:
            return plural
        # "One file" does not fit 21 files, which have the same form in some languages, and Python
        # allows no formats with fewer values.
        lacks_number = len(find_spans(singular)) < len(find_spans(plural))
        is_strict = numbers != [1] or "python-format" in entry.flag_names
        return plural if lacks_number and is_strict else singular


def _slots(entry: Entry, forms: Forms | None) -> Iterator[Slot]:
    """Yield the strings to fill in."""
    flags = ", ".join(sorted(name for name in entry.flag_names if name.endswith("-format")))
    where = f"line {entry.number:,}" + (f" ({flags})" if flags else "")
    if not _is_plural(entry):
        yield Slot("msgstr", *line_units(entry.texts["msgid"], where))
        return
    assert forms is not None
    for index in range(forms.count):
        yield Slot(f"msgstr[{index}]", *line_units(forms.source(index, entry), where))


def _add(
    document: PODocument,
    entry: Entry,
    slots: list[Slot],
    strings: dict[str, str],
    end: str,
    width: int,
) -> None:
    units = [unit for slot in slots for unit in slot.units]

    def block() -> str:
        texts = {slot.keyword: slot.text() for slot in slots}
        if _is_plural(entry):  # kept forms; a template has two, whatever the language needs
            kept = {key: value for key, value in strings.items() if value and key not in texts}
            texts = dict(sorted((kept | texts).items()))
        return end.join(wrapped(key, text, end, width) for key, text in texts.items())

    if "fuzzy" not in entry.flag_names:
        begin, stop = entry.flags or (entry.start, entry.start)
        names = document.text[begin + 2 : stop].strip() if entry.flags else ""
        line = f"#, fuzzy, {names}" if names else f"#, fuzzy{'' if entry.flags else end}"
        document.parts.append(Part(begin, stop, units, lambda: line))
    document.add(*entry.block, units, block)


def _header(
    document: PODocument, header: Entry | None, language: str, end: str, *, needed: bool
) -> Forms | None:
    """Return the plural forms; plan to complete the header if anything is translated."""
    usual = PLURAL_FORMS.get(language) or PLURAL_FORMS.get(re.split("[-_]", language)[0])
    if header is None:
        return Forms(usual) if usual else None
    text = header.texts.get("msgstr", "")
    declared = re.search(r"^Plural-Forms:(.*)$", text, re.MULTILINE)
    is_known = declared is not None and "INTEGER" not in declared[1]
    forms = usual if not is_known and usual else declared[1] if is_known and declared else None
    raw = document.text[slice(*header.block)]
    changes = [
        (r"Language:[ \t]*(?=\\n)", f"Language: {language}", language not in ("tgt", "")),
        (r"(?i:charset=(?:charset|us-ascii|ascii)\b)", "charset=UTF-8", True),
        (r'Plural-Forms:[^"\n]*INTEGER[^"\n\\]*', f"Plural-Forms: {usual}", usual),
    ]
    changed = raw
    for pattern, new, wanted in changes:
        if wanted:
            changed = re.sub(pattern, new, changed, count=1)
    if needed and usual and declared is None:
        changed += f'{end}"Plural-Forms: {usual}\\n"'
    if changed != raw:
        part = Part(*header.block, [], lambda: changed)
        document.header.append(part)
        if header.flags and header.flag_names <= {"fuzzy", ""} and not is_known:
            # The header of a template is marked as fuzzy; msginit removes that, too.
            start, stop = header.flags
            document.header.append(Part(start, stop + len(end), [], str))
        document.parts += document.header
    return Forms(forms) if needed and forms else None
