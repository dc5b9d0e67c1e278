"""Variants of attention that the paper compares with its own: additive (3.2.1), restricted (4)."""
