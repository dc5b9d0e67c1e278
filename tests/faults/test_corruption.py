"""A damaged file is refused by name or is harmless; the short form."""

from pathlib import Path

from faults.corruption import inject


def test_damage_to_any_file_is_refused_by_name_or_harmless(tmp_path: Path) -> None:
    (counts,) = inject(60, 1, tmp_path)
    assert counts.broken == []
    assert counts.held["refused by name"] > 30
