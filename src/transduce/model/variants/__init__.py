"""Variants of attention: additive (paper 3.2.1), restricted (4), and rotary positions."""
