"""Fault injection: `python -m faults` runs the long form, `test_*.py` the short form."""
