"""Text with parts that are not translated: inline tags, and protected spans such as URLs.

- `inline`: text with inline tags, as document formats read and write it.
- `spans`: finds the spans of a text.
- `protected`: a text with one stand-in character for each span, which the translation keeps.
- `placing`: puts tags and spans where they belong in the translation.
"""

from transduce.markup.inline import Inline, Tag, inline_text
from transduce.markup.spans import Span, SpanRules, find_spans, has_words

__all__ = ["Inline", "Span", "SpanRules", "Tag", "find_spans", "has_words", "inline_text"]
