"""Strings to strings: `Translator`, its engines, and what a translation holds."""
