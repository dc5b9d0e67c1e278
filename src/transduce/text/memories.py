"""Pairs of sentences from TMX and XLIFF, read as a stream, so that files of gigabytes fit.

TMX 1.1 to 1.4; XLIFF 1.2, 2.0 and 2.1, segment by segment. A unit without text in both languages
is left out, and so is an XLIFF target that only copies the source before translation. Inline tags
and the codes inside them are removed, a line-break tag becomes a space, and a line end inside a
text is a space. Nothing outside the file is read, and files that declare entities are refused.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn
from xml.parsers import expat

from transduce.errors import BadInput, printable
from transduce.text.languages import UNKNOWN, language_code

Pair = tuple[str, str]
Attributes = dict[str, str]
Variant = tuple[str, str]  # language, text

MAX_BYTES = 1 << 24  # of one tag or text, so that memory stays bounded
MAX_DEPTH = 200  # of nested elements
SHOWN = 8  # languages listed in an error
TMX_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})  # their content is not text
XLIFF_CODES = frozenset({"bpt", "ept", "it", "ph"})
INITIAL = ("", "new", "needs-translation", "initial")  # states before translation
BREAKS = re.compile(r"[ \t]*[\t\r\n]+\s*")


class MemoryParser:
    """The common part of both formats: elements, inline text, errors, collected pairs."""

    root = ""
    codes: frozenset[str] = frozenset()
    text_elements: frozenset[str] = frozenset()

    def __init__(self, name: str, languages: Pair | None) -> None:
        self.name, self.languages = name, languages
        self.found: set[str] = set()  # language codes of the file
        self.units: list[Pair] = []  # finished and not yet yielded
        self.chosen: Pair | None = None  # languages of the last pair
        self.path: list[str] = []  # names of the open elements
        self._text: list[str] | None = None  # of the element that is being read
        self._length = 0
        self._text_depth = self._code_depth = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse_entity

    def pairs(self, blocks: Iterable[bytes]) -> Iterator[Pair]:
        """Parse a file; yield the pairs as they are complete."""
        read, any_pair = 0, False
        try:
            for block in blocks:
                read += len(block)
                self._parser.Parse(block, False)  # noqa: FBT003
                if read - self._parser.CurrentByteIndex > MAX_BYTES:
                    self._fail(f"has a tag of more than {MAX_BYTES >> 20} MiB")
                any_pair |= bool(self.units)
                yield from self.units
                self.units = []
            self._parser.Parse(b"", True)  # noqa: FBT003
        except expat.ExpatError as error:
            reason = expat.errors.messages[error.code]
            self._fail(f"is not well-formed XML in line {error.lineno:,} ({reason})")
        any_pair |= bool(self.units)
        yield from self.units
        if not any_pair:
            self._refuse_empty()

    def start(self, name: str, attributes: Attributes) -> None:
        """Handle the start of an element outside of texts."""

    def end(self, name: str, text: str | None) -> None:
        """Handle the end of an element outside of texts, or of a text."""

    def start_inline(self, name: str, attributes: Attributes) -> None:
        """Handle the start of an element inside a text."""

    def end_inline(self, name: str) -> None:
        """Handle the end of an element inside a text."""

    def is_text(self, name: str) -> bool:
        """Return whether an element that starts now has text to read."""
        return name in self.text_elements

    def add(self, source: str, target: str, languages: Pair) -> None:
        """Add a pair, unless a side is blank."""
        if source and target:
            self.units.append((source, target))
            self.chosen = languages

    def _start(self, tag: str, attributes: Attributes) -> None:
        name = tag.rpartition(":")[2]
        if not self.path and name != self.root:
            self._fail(f"has the root element <{printable(name)[:40]}>")
        if len(self.path) == MAX_DEPTH:
            self._fail(f"has more than {MAX_DEPTH} nested elements")
        if self._text is not None:
            if name in self.codes:
                self._code_depth += 1
            if "lb" in (attributes.get("type"), attributes.get("ctype")) or (
                attributes.get("subType") == "xlf:lb"
            ):
                self._text.append(" ")
            self.start_inline(name, attributes)
        elif self.is_text(name):
            self._text, self._length, self._text_depth = [], 0, len(self.path)
            self.start(name, attributes)
        else:
            self.start(name, attributes)
        self.path.append(name)

    def _end(self, _: str) -> None:
        name = self.path.pop()
        if self._text is None:
            self.end(name, None)
        elif len(self.path) == self._text_depth:
            text, self._text = tidy("".join(self._text)), None
            self.end(name, text)
        else:
            self._code_depth -= name in self.codes
            self.end_inline(name)

    def _characters(self, text: str) -> None:
        if self._text is None or self._code_depth:
            return
        self._text.append(text)
        self._length += len(text)
        if self._length > MAX_BYTES:
            self._fail(f"has a text of more than {MAX_BYTES >> 20} MiB")

    def _refuse_entity(self, *_: Any) -> None:
        self._fail("declares entities, which are not expanded: replace them by their text")

    def _fail(self, problem: str) -> NoReturn:
        if "entities" not in problem:
            problem += f": expected {self.root.upper()}"
        raise BadInput(f"{self.name} {problem}")

    def _refuse_empty(self) -> None:
        languages = ", ".join(map(printable, sorted(self.found)[:SHOWN])) or "none"
        wanted = "both languages" if self.languages is None else " and ".join(self.languages)
        advice = ". Give the languages as in --languages en-de"
        if self.languages is not None and self.languages[0] == UNKNOWN[0]:
            wanted, advice = self.languages[1], ""
            target = language_code(wanted)
            others = sorted(self.found - {target})
            if others and target in self.found:
                raise BadInput(
                    f"{self.name} has text in {languages}: which of them is the source? Give it, "
                    f"such as --from {printable(others[0])}"
                )
        raise BadInput(
            f"{self.name} has no unit with text in {wanted}; its languages are: {languages}{advice}"
        )


class TmxParser(MemoryParser):
    """TMX: each unit (tu) has a variant (tuv) per language, with its text in a seg.

    Without given languages, the file must have two; the source is that of the header, or of the
    first unit.
    """

    root, codes, text_elements = "tmx", TMX_CODES, frozenset({"seg"})

    def __init__(self, name: str, languages: Pair | None) -> None:
        super().__init__(name, languages)
        self._header = self._unit_source = self._language = ""
        self._variants: list[Variant] = []

    def start(self, name: str, attributes: Attributes) -> None:
        """Remember the language of the header and of each variant."""
        if name == "header":
            self._header = language_code(attributes.get("srclang"))
        elif name == "tu":
            self._variants = []
            self._unit_source = language_code(attributes.get("srclang"))
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""

    def end(self, name: str, text: str | None) -> None:
        """Collect the variants of a unit, and add its pair."""
        if name == "seg" and text is not None:
            self._variants.append((self._language, text))
        elif name == "tu":
            self._add_unit()

    def _add_unit(self) -> None:
        codes = list(dict.fromkeys(language_code(language) for language, _ in self._variants))
        self.found.update(codes)
        pair = self.languages or self.chosen  # all units have the direction of the first
        if self.languages is None:
            if len(self.found) > 2:
                listed = ", ".join(map(printable, sorted(self.found)[:SHOWN]))
                raise BadInput(
                    f"{self.name} has text in {listed}: expected two languages; say which as in "
                    "--languages en-de, or name the file like memory.en-de.tmx"
                )
            if len(codes) < 2:
                return
        if pair is None:
            stated = self._header if self._header in codes else self._unit_source
            first, second = codes
            pair = (second, first) if stated == second else (first, second)
        source, target = (choose(self._variants, language) for language in pair)
        self.add(source, target, pair)


class XliffParser(MemoryParser):
    """XLIFF: each trans-unit (1.2) or segment (2) has a source and a target.

    A trans-unit that is divided into segments (mrk mtype="seg") gives one pair for each of them.
    """

    root, codes = "xliff", XLIFF_CODES
    text_elements = frozenset({"source", "target", "seg-source"})

    def __init__(self, name: str, languages: Pair | None) -> None:
        super().__init__(name, languages)
        self._sides: tuple[str, str] = ("", "")  # languages of the file
        self._state = ""
        self._texts: dict[str, str] = {}
        self._segments: dict[str, dict[str, str]] = {}
        self._element = ""  # whose text is being read
        self._open: list[tuple[str, int]] = []  # segments: id, and where their text begins

    def is_text(self, name: str) -> bool:
        """Return whether to read an element: not in proposals such as alt-trans and matches."""
        return name in self.text_elements and self.path[-1:] in (["trans-unit"], ["segment"])

    def start(self, name: str, attributes: Attributes) -> None:
        """Remember languages and states."""
        if name == "xliff" and "srcLang" in attributes:
            self._declare(attributes.get("srcLang", ""), attributes.get("trgLang", ""))
        elif name == "file" and "source-language" in attributes:
            self._declare(attributes["source-language"], attributes.get("target-language", ""))
        elif name in ("trans-unit", "segment"):
            self._state, self._texts, self._segments = attributes.get("state", ""), {}, {}
        elif self._text is not None:  # of an element to read
            self._element = name
            self._segments[name] = {}
            if name == "target":
                self._state = attributes.get("state", self._state)

    def end(self, name: str, text: str | None) -> None:
        """Collect the texts of a unit, and add its pair or those of its segments."""
        if name in self.text_elements and text is not None:
            self._texts[name] = text
        elif name in ("trans-unit", "segment"):
            sources = self._segments.get("seg-source", {})
            targets = self._segments.get("target", {})
            if sources and sources.keys() == targets.keys():
                for mid, source in sources.items():
                    self._add(source, targets[mid])
            else:
                self._add(self._texts.get("source", ""), self._texts.get("target", ""))

    def start_inline(self, name: str, attributes: Attributes) -> None:
        """Remember where a segment begins."""
        if name == "mrk" and self._text is not None:
            mid = attributes.get("mid", "") if attributes.get("mtype") == "seg" else ""
            self._open.append((mid, len(self._text)))

    def end_inline(self, name: str) -> None:
        """Store the text of a segment."""
        if name == "mrk" and self._text is not None:
            mid, begin = self._open.pop()
            if mid:
                self._segments[self._element][mid] = tidy("".join(self._text[begin:]))

    def _declare(self, source: str, target: str) -> None:
        self._sides = source, target
        self.found.update(filter(None, map(language_code, self._sides)))

    def _add(self, source: str, target: str) -> None:
        if source == target and self._state in INITIAL:
            return
        codes = language_code(self._sides[0]), language_code(self._sides[1])
        wanted = codes
        if self.languages is not None:
            wanted = language_code(self.languages[0]), language_code(self.languages[1])
        if wanted == codes[::-1] != codes:
            source, target = target, source
        elif any(code and code != want for code, want in zip(codes, wanted, strict=True)):
            return
        self.add(source, target, wanted)


FORMATS: dict[str, type[MemoryParser]] = {"tmx": TmxParser, "xliff": XliffParser}


def tidy(text: str) -> str:
    """Return a text in one line, without white space at its ends."""
    return BREAKS.sub(" ", text).strip()


def choose(variants: Iterable[Variant], language: str) -> str:
    """Return the first text in a language; that of the same region comes before others."""
    texts = [
        (_normal(code) != _normal(language), number, text)
        for number, (code, text) in enumerate(variants)
        if language_code(code) == language_code(language) and text
    ]
    return min(texts)[2] if texts else ""


def _normal(code: str) -> str:
    return code.replace("_", "-").lower()
