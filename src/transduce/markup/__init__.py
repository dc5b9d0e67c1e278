"""Text with parts that are not translated: inline tags, and protected spans such as URLs."""

from transduce.markup.inline import Inline, Tag, inline_text
from transduce.markup.spans import Span, SpanRules, find_spans

__all__ = ["Inline", "Span", "SpanRules", "Tag", "find_spans", "inline_text"]
