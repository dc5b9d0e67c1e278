"""Scoring translations: BLEU, chrF and TER by sacrebleu, the paper's BLEU, significance tests.

In reading order: `scores` (the public functions), `metrics` (sacrebleu's metrics and tokenisers),
`bootstrap` (confidence intervals from per-line statistics), `significance` (comparing systems).
"""
