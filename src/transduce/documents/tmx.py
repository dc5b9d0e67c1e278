"""TMX 1.1 to 1.4: units without a translation into the target language get one.

The new variant has creationid="MT", so that it can be told from the work of translators. A variant
that exists is never replaced, unless `overwrite` is set.

Inline elements are tags: hi around text, bpt and ept with the same i as pairs, the others (ph, it,
ut) as single tags. Text inside codes (sub) is not translated.
"""

from collections import Counter
from typing import TYPE_CHECKING

from transduce.documents.base import Document, DocumentOptions, Unit, list_left_alone
from transduce.documents.xml import (
    LANG,
    SINGLE,
    Content,
    Role,
    fill,
    has_text,
    insert_after,
    is_known,
    local_name,
    parse,
    read_content,
    serialise,
    sibling,
)
from transduce.errors import BadInput, printable
from transduce.text.languages import language_code

if TYPE_CHECKING:
    from lxml.etree import _Element, _ElementTree

MAX_NAMES = 5  # languages listed in an error


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read a TMX document."""
    tree = parse(data, "TMX")
    if (root := local_name(tree.getroot())) != "tmx":
        raise BadInput(f"the root element is <{printable(root)}>, expected <tmx> of TMX")
    return Tmx(data, tree, options)


class Tmx(Document):
    """A translation memory."""

    def __init__(self, data: bytes, tree: "_ElementTree", options: DocumentOptions) -> None:
        super().__init__()
        self._data, self._tree, self._languages = data, tree, options.languages
        root = tree.getroot()
        self._namespace = str(root.tag).removesuffix("tmx")
        header = root.find(self._name("header"))
        declared = "" if header is None else header.get("srclang", "")
        source, target = (language_code(language) for language in options.languages)
        if not is_known(source):
            source = language_code(declared)
        self._sources: list[tuple[_Element, Content]] = []  # of each unit
        skipped: Counter[str] = Counter()
        present: Counter[str] = Counter()
        for number, unit in enumerate(root.iter(self._name("tu")), 1):
            variants = list(unit.iterchildren(self._name("tuv")))
            present.update(map(_language, variants))
            original = self._variant(variants, source, unit.get("srclang") or declared)
            if original is None:
                skipped[f"unit(s) without text in {source}"] += 1
            elif not options.overwrite and has_text(self._variant(variants, target)):
                skipped["unit(s) with a translation"] += 1
            else:
                self._add(original, f"unit {printable(unit.get('tuid') or str(number))}")
        if present and source not in present:
            names = ", ".join(printable(name) for name in sorted(present)[:MAX_NAMES])
            raise BadInput(
                f"no unit of the TMX document has text in {source}, from which the model "
                f"translates; its languages are: {names}"
            )
        self.left_alone = list_left_alone(skipped)

    def to_bytes(self) -> bytes:
        """Return the file with the translations as variants of their units."""
        translated = [
            (original, content, unit.target)
            for (original, content), unit in zip(self._sources, self.units, strict=True)
            if unit.target is not None
        ]
        for original, content, target in translated:
            segment = self._segment(self._target(original))
            fill(segment, (*content.before, *target, *content.after))
        return serialise(self._tree, self._data) if translated else self._data

    def _name(self, name: str) -> str:
        return self._namespace + name

    def _add(self, original: "_Element", where: str) -> None:
        content = read_content(self._segment(original), _role)
        if content.has_text:
            self.units.append(Unit(content.middle, where))
            self._sources.append((original, content))

    def _segment(self, variant: "_Element") -> "_Element":
        """Return the element with the text of a variant, created if it is missing."""
        segment = variant.find(self._name("seg"))
        if segment is None:
            segment = sibling(variant, "seg")
            variant.append(segment)
        return segment

    def _variant(
        self, variants: "list[_Element]", language: str, preferred: str = ""
    ) -> "_Element | None":
        """Return a variant in a language that has text; the preferred one of several."""
        matching = [
            variant
            for variant in variants
            if _language(variant) == language and has_text(variant.find(self._name("seg")))
        ]
        exact = [variant for variant in matching if _full_language(variant) == preferred.lower()]
        return next(iter([*exact, *matching]), None)

    def _target(self, original: "_Element") -> "_Element":
        """Return the variant in the target language, created if it is missing."""
        unit = original.getparent()
        assert unit is not None
        target = self._languages[1]
        variants = list(unit.iterchildren(self._name("tuv")))
        for variant in variants:
            if variant is not original and _language(variant) == language_code(target):
                variant.set("creationid", "MT")
                return variant
        variant = sibling(original, "tuv")
        variant.set(LANG, target)
        variant.set("creationid", "MT")
        insert_after(variants[-1], variant)
        segment = self._segment(variant)
        indent = original.text or ""
        if not indent.strip():
            variant.text, segment.tail = indent, self._segment(original).tail
        return variant


def _full_language(variant: "_Element") -> str:
    return (variant.get(LANG) or variant.get("lang") or "").lower()


def _language(variant: "_Element") -> str:
    return language_code(_full_language(variant))


def _role(element: "_Element") -> Role:
    name = local_name(element)
    if name == "hi":
        return "pair", None
    if name in ("bpt", "ept"):
        return "start" if name == "bpt" else "end", element.get("i")
    return SINGLE
