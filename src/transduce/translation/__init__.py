"""Translating text with a trained model.

In reading order: `types` (jobs, hypotheses, the Engine protocol), `segments` (a text as the pieces
that are searched), `streaming` (reading texts ahead), `translator` (the public class), `joining`
(hypotheses of segments back to a text), `alignment` (which word translates which), `translation`
(results), `notebook` (results as HTML), `engines` (PyTorch, CTranslate2).
"""
