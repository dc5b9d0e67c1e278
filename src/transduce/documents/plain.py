"""Plain text: each line is translated."""

import re

from transduce.documents.base import Document, DocumentOptions
from transduce.documents.textfile import BYTE_ORDER_MARK, TextDocument, decode, line_units


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read a text; only a line feed ends a line."""
    document = TextDocument(text=decode(data), marked=data.startswith(BYTE_ORDER_MARK))
    for number, match in enumerate(re.finditer(r"[^\n]*\n|[^\n]+", document.text), 1):
        units, join = line_units(match[0], f"line {number:,}")
        if units:
            document.add(match.start(), match.end(), units, join)
    return document
