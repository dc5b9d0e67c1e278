"""The encoding of an HTML file: from its byte order mark or declaration, else UTF-8."""

import codecs
import re

from transduce.errors import BadInput, printable

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
DECLARATION = re.compile(
    rb"<meta\s[^>]*charset\s*=\s*[\"']?\s*([\w.:-]+)|^\s*<\?xml\s[^>]*encoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
PROLOGUE = 4096  # bytes in which a declaration counts
# What browsers use for these names, according to the Encoding standard.
ALIASES = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),  # it could not be read here
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
NOT_FOR_TEXT = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined")


def decode(data: bytes) -> tuple[str, str]:
    """Return the text, with its byte order mark, and its encoding."""
    encoding = _encoding(data)
    if b"\0" in data and not encoding.startswith(("utf-16", "utf-32")):
        raise BadInput(
            "the HTML document has NUL bytes: save it as UTF-8; UTF-16 needs a byte-order mark"
        )
    try:
        return data.decode(encoding), encoding
    except UnicodeError as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        raise BadInput(
            f"line {line} of the HTML document is not {encoding}: save it as UTF-8, or declare its "
            'encoding with <meta charset="…"> at the start'
        ) from None


def _encoding(data: bytes) -> str:
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return encoding
    declared = DECLARATION.search(data[:PROLOGUE])
    if declared is None:
        return "utf-8"
    label = (declared[1] or declared[2]).decode("ascii", "replace")
    try:
        name = codecs.lookup(label).name
        "".encode(name)  # fails for codecs from bytes to bytes
    except (LookupError, UnicodeError, ValueError):
        name = "undefined"
    if name.replace("_", "-") in NOT_FOR_TEXT:
        raise BadInput(
            f"the HTML document declares the encoding {printable(label)!r}, which is unknown: save "
            "it as UTF-8 and declare that"
        )
    return ALIASES.get(name, name)
