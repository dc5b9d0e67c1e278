"""CSV, TSV, JSON and plain text, read with the standard library."""

import csv
import io
import json
import re
from typing import Any

from document_corpus.author import Author
from document_corpus.reading import Reading

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _text(author: Author) -> str:
    text = author.sentence()
    if author.chance(0.2):
        text = f'"{author.words()}" {text}'
    return f"{text}\n{author.sentence()}" if author.chance(0.2) else text


def make_csv(author: Author, delimiter: str = "") -> bytes:
    file = io.StringIO()
    delimiter = delimiter or (",", ";", ",", "|")[author.shape % 4]
    quoting: Any = csv.QUOTE_ALL if author.shape % 3 == 0 else csv.QUOTE_MINIMAL
    end = "\r\n" if author.shape % 2 else "\n"
    table = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
    table.writerow(["id", "name, full", "text", "price"])
    for _ in author.times(30):
        number = author.number()
        row = [number, author.words(), _text(author), f"{number},50"]
        table.writerow(row if author.chance(0.95) else row[:3])
    mark = b"\xef\xbb\xbf" if author.shape % 3 == 1 else b""
    return mark + file.getvalue().encode()


def make_tsv(author: Author) -> bytes:
    return make_csv(author, "\t")


def read_csv(data: bytes, *, translated: bool, delimiter: str = "") -> Reading:
    del translated
    reading = Reading()
    text = data.decode("utf-8-sig")
    delimiter = delimiter or text.replace('"', "")[2]
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    for number, row in enumerate(rows):
        reading.frame.append(repr([cell for place, cell in enumerate(row) if place != 2]))
        if number:
            _add_lines(reading, f"row {number}", row[2])
    reading.frame.append(repr([data[:3] == b"\xef\xbb\xbf", text.count("\r\n") > 20]))
    return reading


def read_tsv(data: bytes, *, translated: bool) -> Reading:
    return read_csv(data, translated=translated, delimiter="\t")


def _add_lines(reading: Reading, name: str, text: str) -> None:
    for number, line in enumerate(text.split("\n")):
        reading.block(f"{name} line {number}").add("", line)


def _value(author: Author, depth: int) -> Any:
    match author.draw.randrange(9 if depth < 3 else 6):
        case 0:
            return author.number()
        case 1:
            return author.draw.choice((None, True, 1.5, "", "42", "…"))
        case 2:
            return "{n, plural, one {One file} other {# files}}"
        case 3 | 4 | 5:
            return _text(author)
        case 6:
            return [_value(author, depth + 1) for _ in range(author.draw.randint(0, 4))]
        case _:
            return {f"key {author.number()}": _value(author, depth + 1) for _ in range(4)}


def make_json(author: Author) -> bytes:
    value = {f"part.{number}": _value(author, 0) for number in author.times(25)}
    indent = (2, None, "\t", 4)[author.shape % 4]
    text = json.dumps(value, indent=indent, ensure_ascii=author.shape % 3 == 0)
    text = text.replace("\n", "\r\n") if author.shape % 5 == 0 else text
    return (b"\xef\xbb\xbf" if author.shape % 4 == 3 else b"") + text.encode() + b"\n"


def make_jsonl(author: Author) -> bytes:
    lines = [{"id": author.number(), "text": _text(author)} for _ in author.times(30)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def read_json(data: bytes, *, translated: bool) -> Reading:
    del translated
    reading = Reading()
    text = data.decode("utf-8-sig")
    reading.frame += [str(data[:3] == b"\xef\xbb\xbf"), STRING.sub('""', text)]
    lines = text.splitlines()
    has_lines = all(line.startswith("{") and line.endswith("}") for line in lines)
    for number, line in enumerate(lines if has_lines else [text]):
        _read_value(reading, str(number), json.loads(line))
    return reading


def _read_value(reading: Reading, path: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _read_value(reading, f"{path}/{key}", inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _read_value(reading, f"{path}/{number}", inner)
    elif isinstance(value, str) and "plural," not in value:
        _add_lines(reading, path, value)
    else:
        reading.frame.append(f"{path} {value!r}")


def make_text(author: Author) -> bytes:
    end = "\r\n" if author.shape % 2 else "\n"
    lines = [f"  {author.sentence()}" if author.chance(0.8) else "" for _ in author.times(60)]
    return end.join(lines).encode()


def read_text(data: bytes, *, translated: bool) -> Reading:
    del translated
    reading = Reading()
    lines = re.split(r"\r?\n", data.decode())
    reading.frame += [str(b"\r\n" in data), *(re.sub(r"\S.*", "", line) for line in lines)]
    for number, line in enumerate(lines):
        reading.block(f"line {number}").add("", line)
    return reading
