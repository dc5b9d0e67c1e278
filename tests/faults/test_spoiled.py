"""The short form of `make faults KIND=spoiled`."""

from pathlib import Path

from faults.spoiled import SPOILS, inject


def test_a_spoiled_document_is_translated_or_refused_in_one_sentence(tmp_path: Path) -> None:
    (tally,) = inject(30, 1, tmp_path)
    assert tally.broken == []
    assert tally.held["refused in one sentence"] > 8
    assert tally.held["translated"] > 3
    assert len(SPOILS) == 15
