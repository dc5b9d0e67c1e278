"""Constituency parsing as translation of words to trees (paper 6.3).

In reading order: `trees` (trees in brackets), `sequences` (trees as symbols and back), `words`
(tokenising sentences), `lexicon` (the tags of words), `constraint` (search for well-formed trees
only), `parser` (the public class), `training`, `evaluation` (EVALB's scores), `drawing` (SVG).
"""
