"""The short form of `make faults KIND=documents`: documents of all formats keep their content."""

from untrained_translator import untrained_translator

from faults.documents import by_fake, by_model
from transduce.documents.formats import FORMATS


def test_a_translation_changes_words_and_nothing_else_in_any_format() -> None:
    tally = by_fake(30, 1, size=0.5)
    assert tally.broken == []
    assert set(tally.held) == {*FORMATS} - {"tsv", "text"}
    assert str(tally.figures["protected spans"]).endswith(", of which 0 are lost or broken")


def test_a_model_keeps_structure_and_spans_whatever_it_writes() -> None:
    tally = by_model(10, 2, untrained_translator(), size=0.1, beam=1)
    assert tally.broken == []
