"""Scoring translations: BLEU, chrF and TER by sacrebleu, the paper's BLEU, significance tests.

In reading order: `scores` (the public functions), `metrics` (sacrebleu's metrics and tokenisers),
`bootstrap` (confidence intervals from per-line statistics), `significance` (comparing systems),
`resampling` (its random samples, and several outputs of a system), `comet` (a neural metric),
`differences` (a page with the sentences in which systems differ most).
"""
