"""Constituency parsing as translation of words to trees (paper 6.3).

In reading order: `trees` (trees in brackets), `sequences` (trees as symbols and back), `words`
(tokenising sentences), `lexicon` (possible tags for each word), `constraint` (restricts the search
to well-formed trees), `parser` (the public class), `training`, `evaluation` (EVALB's scores),
`raw_text` (sentences without trees), `selection` (which automatic trees are kept), `automatic`
(parsing raw text), `drawing` (SVG).
"""
