"""PO files as xgettext, translators and editors leave them, read with polib."""

import polib

from document_corpus.author import Author
from document_corpus.reading import DONE, Reading

SPANS = ("brace", "mustache", "python", "numbered", "url", "email", "path", "file", "option", "tag")
HEADER = """\
# Translations of Kit.
# Copyright (C) 2026 Kit
#{fuzzy}
msgid ""
msgstr ""
"Project-Id-Version: kit 1.0\\n"
"PO-Revision-Date: 2026-01-01 12:00+0000\\n"
"Language: de\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"
"""


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def _string(author: Author, keyword: str, text: str) -> str:
    """Return a keyword and its string, on one line or on several."""
    if author.chance(0.5) and "\n" not in text:
        return f'{keyword} "{quoted(text)}"\n'
    words = text.replace("\n", "\n\0").replace(" ", " \0").split("\0")
    lines, current = [f'{keyword} ""\n'], ""
    for word in words:
        if len(current + word) > 60 or current.endswith("\n"):
            lines.append(f'"{quoted(current)}"\n')
            current = ""
        current += word
    return "".join([*lines, f'"{quoted(current)}"\n'])


def _message(author: Author) -> str:
    number = author.number()
    flags = author.draw.choice(("", "", "c-format", "python-format", "no-wrap"))
    lines = [f"#. {author.words()}\n" if author.chance(0.3) else "", f"#: src/a.c:{number}\n"]
    context = f'msgctxt "menu {number}"\n' if author.chance(0.3) else ""
    text = f"{author.sentence()}"
    if author.chance(0.2):
        text = f"{text}\n\n  {author.sentence()}\n"
    if author.chance(0.1):
        text = f'{author.words()}\t"{author.text()}"'
    choice = author.draw.randrange(8)
    if choice == 0:  # outdated
        old = f'#| msgid "{author.words()}"\n'
        lines += [f"#, fuzzy{', ' if flags else ''}{flags}\n", old]
        return "".join([*lines, context, _string(author, "msgid", text), 'msgstr "Alt"\n'])
    lines.append(f"#, {flags}\n" if flags else "")
    if choice in (3, 4):  # both forms have the number
        count = author.span()
        text = f"{author.text(2, 4, 0)} {count} {author.words()}"
        plural = _string(author, "msgid_plural", f"{author.words()} {count} {author.words()}")
    start = "".join([*lines, context, _string(author, "msgid", text)])
    if choice == 1:
        return f'{start}msgstr "{DONE} {number}"\n'
    if choice == 2:
        return f'#~ msgid "{author.words()}"\n#~ msgstr "Weg {number}"\n'
    if choice in (3, 4):
        return f'{start}{plural}msgstr[0] ""\nmsgstr[1] ""\n'
    return f'{start}msgstr ""\n'


def make_po(author: Author) -> bytes:
    header = HEADER.format(fuzzy="\n#, fuzzy" if author.chance(0.2) else "")
    text = "\n".join([header, *(_message(author) for _ in author.times(35))])
    text = text.replace("\n", "\r\n") if author.shape % 4 == 1 else text
    return (b"\xef\xbb\xbf" if author.shape % 7 == 1 else b"") + text.encode()


def read_po(data: bytes, *, translated: bool) -> Reading:
    reading = Reading()
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    file = polib.pofile(text)
    reading.frame += [str(sorted(file.metadata.items())), file.header]
    reading.frame.append(str((data.startswith(b"\xef\xbb\xbf"), b"\r\n" in data)))
    for entry in file:
        flags = sorted(flag for flag in entry.flags if flag != "fuzzy")
        kept = (entry.msgid, entry.msgid_plural, entry.msgctxt, entry.comment, entry.tcomment)
        frame = [*kept, entry.occurrences, flags, entry.obsolete, entry.previous_msgid]
        name = f"{entry.msgctxt}/{entry.msgid[:20]}"
        is_done = entry.obsolete or entry.msgstr.startswith(DONE)
        reading.frame.append(repr([*frame, entry.msgstr if is_done else ""]))
        if is_done:
            assert not entry.fuzzy
        elif entry.msgid_plural:
            sources = {0: entry.msgid, 1: entry.msgid_plural}
            for form, string in (entry.msgstr_plural if translated else sources).items():
                _add(reading, f"{name} {form}", sources[int(form)], string)
            assert entry.fuzzy == translated
        else:
            _add(reading, name, entry.msgid, entry.msgstr if translated else entry.msgid)
            assert entry.fuzzy or not translated
    return reading


def _add(reading: Reading, name: str, source: str, text: str) -> None:
    """Add a text; line ends stay where they are, so each line is a text of its own."""
    reading.frame.append(f"{name}: {[line[:1].isspace() for line in text.split(chr(10))]}")
    assert source.count("\n") == text.count("\n"), name
    for number, line in enumerate(text.split("\n")):
        reading.block(f"{name} line {number} of {source[:60]}").add("", line)
