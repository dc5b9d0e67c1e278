"""Documents: read the texts of a file to translate, and write it again with their translations.

Each format is a module with a function `read`; the table in `formats` lists them.
"""

from transduce.documents.base import Document, DocumentOptions, Unit

__all__ = ["Document", "DocumentOptions", "Unit"]
