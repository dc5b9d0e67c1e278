"""XLIFF 1.2, 2.0 and 2.1: translations are filled into the targets.

They are marked as machine translation: in 1.2 with state="needs-review-translation" and
state-qualifier="mt-suggestion". XLIFF 2 has no such state: `translated` would claim that a
translator has done the work, so a segment stays `initial`, which editors show as not confirmed,
with subState="transduce:mt" (a subState needs a prefix of the tool).

A target is never replaced, unless `overwrite` is set, if it has text, if the trans-unit is approved
or if its state is at least "translated". One exception: a target in an initial state whose text is
that of the source is the copy that some tools write before translation.

Inline elements are tags. Those around text (g, pc, mrk) form pairs, as do bpt and ept, bx and ex,
sc and ec, sm and em with the same id, and START_ and CLOSE_ of Angular. Text inside codes (sub) is
not translated.
"""

import re
from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING

from transduce.documents.base import Document, DocumentOptions, Unit, list_left_alone
from transduce.documents.xml import (
    LANG,
    SINGLE,
    Content,
    Role,
    check_language,
    copy_content,
    fill,
    has_text,
    inherited,
    insert_after,
    is_known,
    local_name,
    parse,
    read_content,
    serialise,
    sibling,
    text_of,
)
from transduce.errors import BadInput, printable

if TYPE_CHECKING:
    from lxml.etree import _Element, _ElementTree

DONE_1 = ("translated", "final", "signed-off")
INITIAL_1 = (None, "new", "needs-translation")
DONE_2 = ("translated", "reviewed", "final")
# Tags of Angular's templates; the ends of START_LINK and START_LINK_1 are both CLOSE_LINK.
ANGULAR = re.compile(r"(?:(?P<is_start>START)|CLOSE)_(?P<name>\w+?)(?:_\d+)?")
MT_1 = {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"}
MT_2 = {"state": "initial", "subState": "transduce:mt"}


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read an XLIFF document."""
    tree = parse(data, "XLIFF")
    root = tree.getroot()
    if local_name(root) != "xliff":
        raise BadInput(
            f"the root element is <{printable(local_name(root))}>, expected <xliff> of XLIFF"
        )
    version = root.get("version", "")
    if version.partition(".")[0] not in ("1", "2"):
        raise BadInput(
            f"XLIFF version {printable(version)!r}: expected 1.2, 2.0 or 2.1 in <xliff version=…>"
        )
    document = Xliff1 if version.startswith("1") else Xliff2
    return document(data, tree, options)


class Xliff(Document):
    """What both versions share."""

    def __init__(self, data: bytes, tree: "_ElementTree", options: DocumentOptions) -> None:
        super().__init__()
        self._data, self._tree, self._options = data, tree, options
        root = tree.getroot()
        self._namespace = str(root.tag).removesuffix("xliff")
        # Of each unit: the element that gets the target, the source, and its content.
        self._places: list[tuple[_Element, _Element, Content]] = []
        self._skipped: Counter[str] = Counter()
        self.read_units(root)
        self.left_alone = list_left_alone(self._skipped)

    @abstractmethod
    def read_units(self, root: "_Element") -> None:
        """Add all units."""

    @abstractmethod
    def write_target(self, place: "_Element", source: "_Element", content: Content) -> None:
        """Write the target of a unit, which is the middle of the content."""

    @abstractmethod
    def set_languages(self) -> None:
        """Declare the target language where it is missing."""

    def name(self, name: str) -> str:
        """Return the full name of an element of XLIFF."""
        return self._namespace + name

    def to_bytes(self) -> bytes:
        """Return the file with the translations as targets."""
        changed = False
        for unit, (place, source, content) in zip(self.units, self._places, strict=True):
            if unit.target is not None:
                changed = True
                translated = Content(content.before, unit.target, content.after)
                self.write_target(place, source, translated)
        if not changed:
            return self._data
        self.set_languages()
        return serialise(self._tree, self._data)

    def _add(self, place: "_Element", source: "_Element", content: Content, where: str) -> None:
        if not content.has_text:
            return
        self.units.append(Unit(content.middle, where))
        self._places.append((place, source, content))
        subs = sum(1 for _ in source.iter(self.name("sub")))
        self._skipped["text(s) inside codes (sub)"] += subs

    def _target(self, owner: "_Element") -> "_Element":
        """Return the target of a trans-unit or segment, created if it is missing."""
        target = owner.find(self.name("target"))
        if target is None:
            source = owner.find(self.name("source"))
            assert source is not None
            target = sibling(source, "target")
            if source.get(LANG) and is_known(self._options.languages[1]):
                target.set(LANG, self._options.languages[1])
            segmented = owner.find(self.name("seg-source"))
            insert_after(source if segmented is None else segmented, target)
        return target


class Xliff1(Xliff):
    """XLIFF 1.0 to 1.2."""

    def read_units(self, root: "_Element") -> None:
        """Add the trans-units, or their segments."""
        for file in root.iter(self.name("file")):
            where = f"source-language in line {file.sourceline}"
            check_language(file.get("source-language"), self._options, 0, where)
            where = f"target-language in line {file.sourceline}"
            check_language(file.get("target-language"), self._options, 1, where)
        for unit in root.iter(self.name("trans-unit")):
            self._read_unit(unit)

    def set_languages(self) -> None:
        """Set target-language of files that have none."""
        for file in self._tree.getroot().iter(self.name("file")):
            if not file.get("target-language") and is_known(self._options.languages[1]):
                file.set("target-language", self._options.languages[1])

    def _read_unit(self, unit: "_Element") -> None:
        source = unit.find(self.name("source"))
        target = unit.find(self.name("target"))
        if source is None:
            return
        if inherited(unit, "translate") == "no":
            self._skipped['trans-unit(s) with translate="no"'] += 1
            return
        segments = self._segments(unit.find(self.name("seg-source")))
        done = _is_done_1(unit, source, target)
        filled: set[str] = set()  # segments with a translation
        if done and segments and target is not None and not _is_confirmed(unit, target):
            marks = self._segments(target)
            if marks.keys() >= segments.keys():
                filled = {mid for mid, mark in marks.items() if has_text(mark)}
                done = segments.keys() <= filled
        if done and not self._options.overwrite:
            self._skipped["trans-unit(s) with a translation"] += 1
            return
        where = f"trans-unit {printable(unit.get('id', ''))}"
        for mid, segment in segments.items():
            if self._options.overwrite or mid not in filled:
                content = read_content(segment, self._role)
                self._add(unit, segment, content, f"{where}, segment {printable(mid)}")
        if not segments:
            self._add(unit, source, read_content(source, self._role), where)

    def _segments(self, element: "_Element | None") -> "dict[str, _Element]":
        """Return the segments by id; none if ids are missing or not unique."""
        if element is None:
            return {}
        marks = [mark for mark in element.iter(self.name("mrk")) if mark.get("mtype") == "seg"]
        by_id = {mark.get("mid", ""): mark for mark in marks}
        return by_id if len(by_id) == len(marks) and "" not in by_id else {}

    def write_target(self, place: "_Element", source: "_Element", content: Content) -> None:
        """Fill the target, or one of its segments."""
        target = self._target(place)
        if source.tag != self.name("mrk"):
            fill(target, content.all)
        else:
            segmented = place.find(self.name("seg-source"))
            assert segmented is not None
            if not self._segments(target).keys() >= self._segments(segmented).keys():
                copy_content(segmented, target)
                for segment in self._segments(target).values():
                    fill(segment, ())
            fill(self._segments(target)[source.get("mid", "")], content.all)
        _set(target, MT_1)
        if place.get("approved") == "yes":
            place.set("approved", "no")

    def _role(self, element: "_Element") -> Role:
        name, pair_id = local_name(element), element.get("rid") or element.get("id")
        if name == "g" or (name == "mrk" and element.get("mtype") != "protected"):
            return "pair", None
        if name in ("bpt", "bx"):
            return "start", (name, pair_id)
        if name in ("ept", "ex"):
            return "end", ("bx" if name == "ex" else "bpt", pair_id)
        if name == "x" and (mark := ANGULAR.fullmatch(pair_id or "")):
            return "start" if mark["is_start"] else "end", ("x", mark["name"])
        return SINGLE


def _set(element: "_Element", attributes: dict[str, str]) -> None:
    for name, value in attributes.items():
        element.set(name, value)


def _is_confirmed(unit: "_Element", target: "_Element | None") -> bool:
    state = None if target is None else target.get("state")
    return unit.get("approved") == "yes" or state in DONE_1


def _is_done_1(unit: "_Element", source: "_Element", target: "_Element | None") -> bool:
    if _is_confirmed(unit, target):
        return True
    if target is None or not has_text(target):
        return False
    return text_of(target) != text_of(source) or target.get("state") not in INITIAL_1


class Xliff2(Xliff):
    """XLIFF 2.0 and later."""

    def read_units(self, root: "_Element") -> None:
        """Add the segments."""
        check_language(root.get("srcLang"), self._options, 0, "srcLang")
        check_language(root.get("trgLang"), self._options, 1, "trgLang")
        for unit in root.iter(self.name("unit")):
            segments = unit.findall(self.name("segment"))
            if inherited(unit, "translate") == "no":
                self._skipped['segment(s) with translate="no"'] += len(segments)
                continue
            for number, segment in enumerate(segments, 1):
                self._read_segment(unit, segment, number)

    def set_languages(self) -> None:
        """Set trgLang if it is missing."""
        root = self._tree.getroot()
        if not root.get("trgLang") and is_known(self._options.languages[1]):
            root.set("trgLang", self._options.languages[1])

    def _read_segment(self, unit: "_Element", segment: "_Element", number: int) -> None:
        source = segment.find(self.name("source"))
        target = segment.find(self.name("target"))
        if source is None:
            return
        state = segment.get("state", "initial")
        is_copy = state == "initial" and target is not None and text_of(target) == text_of(source)
        if (state in DONE_2 or (has_text(target) and not is_copy)) and not self._options.overwrite:
            self._skipped["segment(s) with a translation"] += 1
            return
        where = f"unit {printable(unit.get('id', ''))}, segment {segment.get('id') or number}"
        self._add(segment, source, read_content(source, self._role), printable(where))

    def write_target(self, place: "_Element", source: "_Element", content: Content) -> None:
        """Fill the target of a segment."""
        fill(self._target(place), content.all)
        _set(place, MT_2)

    def _role(self, element: "_Element") -> Role:
        name = local_name(element)
        if name == "pc" or (name == "mrk" and element.get("translate") != "no"):
            return "pair", None
        if name in ("sc", "sm") and element.get("isolated") != "yes":
            return "start", (name, element.get("id"))
        if name in ("ec", "em") and element.get("startRef"):
            return "end", ("s" + name[1], element.get("startRef"))
        return SINGLE
