"""Translating text with a trained model.

In reading order: `types` (jobs, hypotheses, the Engine protocol), `segments` (splitting a text into
the pieces to search), `streaming` (reading texts ahead), `translator` (the public class), `joining`
(joining the hypotheses of segments into a text), `alignment` (word alignment), `translation`
(results), `notebook` (results as HTML), `engines` (PyTorch, CTranslate2).
"""
