"""Cleaning parallel text: rules that find bad pairs, and what is left without them.

In reading order:

- `limits`: the rules, and the limits that can be changed.
- `rules`: the rules for a single pair.
- `languages`: wrong languages and scripts.
- `repeats`: pairs that repeat earlier ones, in memory of a few bytes per pair.
- `checking`: all rules over a text, in several processes.
- `outputs`: clean and removed pairs, written completely or not at all.
- `scoring`: scores by trained models in both directions.
- `report`: counts, examples and histograms as text, JSON and HTML.
"""
