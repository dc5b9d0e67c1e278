"""Every reader of external data, as a function of bytes.

A reader accepts its input or raises one of our errors; anything else is a bug. Checksums are
corrected after changes, as an attacker would do.
"""

import asyncio
import gzip
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from faults.reader import DEEP, Material, Reader, Wrong, check_json
from faults.run_readers import (
    config,
    header,
    importing,
    lexicon,
    manifest,
    rules,
    sentencepiece,
    stamp,
    state,
    subwords,
    tensors,
    tokenizer,
    tokens,
    weights,
)
from transduce.errors import TransduceError


def text(_: Material, folder: Path) -> Reader:
    """Plain and compressed text; the first byte chooses the name of the file."""
    from transduce.text.reading import read_lines

    names = ["text", "text.gz", "text.xz", "text.zst", "text.en"]

    def read(data: bytes) -> None:
        path = folder / names[data[0] % len(names) if data else 0]
        path.write_bytes(data[1:])
        for line in read_lines(path):
            if "\n" in line or "\0" in line:
                raise Wrong(f"a line holds {line!r}")
            line.encode()

    plain = "Zwei Hunde laufen.\r\nÜber das Gras.\n\n日本語".encode()
    packed = [gzip.compress(plain, mtime=0), lzma.compress(plain), _zst(plain)]
    cut = [data[: len(data) // 2] for data in packed]
    odd = [b"\xef\xbb\xbf" + plain, plain.decode().encode("utf-16"), b"a\0b\n", b"\xff\n", b""]
    several = [first + second for first in packed for second in packed]
    seeds = [plain, *packed, *cut, *odd, *several, packed[0] + b"\0" * 9]
    return Reader(read, [bytes([n % 5]) + seed for n, seed in enumerate(seeds)] + [b"\0" + plain])


def pairs(_: Material, folder: Path) -> Reader:
    """A TSV, or two files with a form feed between their bytes."""
    from transduce.text.reading import read_pairs

    left, right = folder / "left.en", folder / "right.de"

    def read(data: bytes) -> None:
        first, two, second = data.partition(b"\f")
        left.write_bytes(first)
        right.write_bytes(second)
        for source, target in read_pairs(left, right if two else None):
            if "\n" in source + target:
                raise Wrong("a line feed within a line")

    tsv = b"a dog\tein Hund\na man\tein Mann\n"
    return Reader(read, [tsv, tsv + b"x\n", tsv + b"a\tb\tc\n", b"a\nb\n\fc\nd\n", b"a\n\f", b""])


def trees(_: Material, folder: Path) -> Reader:
    """Trees in brackets."""
    from transduce.parsing.trees import normalize, read_trees

    path = folder / "trees"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for tree in read_trees(path):
            tree.indented()
            tree.words()
            if (simple := normalize(tree)) is not None:
                str(simple)

    whole = b"( (S (NP-SBJ-1 (NN Annexin)) (VP (VBZ binds) (NP (NN calcium))) (. .)) )\n"
    seeds = [whole, whole[:-4], b"(S (-NONE- *))", b"(" * 3_000, b"()", b"(A b c)", b"a", b""]
    return Reader(read, [*seeds, b"(A " * 2_000 + b"(B c)" + b")" * 2_000])


def logs(material: Material, folder: Path) -> Reader:
    """metrics.jsonl, and after a form feed samples.jsonl: plotted, watched, and resumed."""
    from transduce.runs import history
    from transduce.runs.metrics import drop_after
    from transduce.serving.runs import Board

    run = folder / "run"
    run.mkdir(exist_ok=True)
    shutil.copy(material.run / "config.json", run)
    metrics, samples = run / "metrics.jsonl", run / "samples.jsonl"

    def read(data: bytes) -> None:
        first, _, second = data.partition(b"\f")
        metrics.write_bytes(first)
        samples.write_bytes(second)
        board = Board([run])
        check_json(board.summaries())
        check_json(board.since("run", ""))
        drop_after(samples, 10)
        try:
            logged = history.read_history(run, "run")
            logged.curve("loss", None)
            logged.curve("valid_loss", 60.0)
        finally:
            drop_after(metrics, 10)

    stored = [(material.run / f"{name}.jsonl").read_bytes() for name in ("metrics", "samples")]
    lines = stored[0].splitlines(keepends=True)
    odd = [b'{"step": 1e308, "loss": 1, "seconds": 1e308}\n', DEEP + b"\n", b'{"step": "1"}\n']
    return Reader(read, [b"\f".join(stored), b"".join(lines[:2]), *odd, b"\f" + stored[1]])


def settings(_: Material, folder: Path) -> Reader:
    """Values of options: settings, times, languages, lists of rows and of lengths."""
    from transduce.cli.options import parse_settings, parse_time
    from transduce.cli.paper.options import listed
    from transduce.cli.paper.table1 import _lengths
    from transduce.config import ModelConfig, TrainConfig, apply_settings
    from transduce.text.languages import guess_languages

    def read(data: bytes) -> None:
        kind, _, rest = data.decode("utf-8", "surrogateescape").partition(" ")
        match kind:
            case "time":
                parse_time(rest)
            case "languages":
                guess_languages("", "", rest)
                guess_languages(rest, None)
                guess_languages(rest, rest)
            case "rows":
                listed(rest)
            case "lengths":
                _lengths(rest)
            case _:
                model, train = apply_settings(
                    parse_settings(rest.split(" ")), ModelConfig(), TrainConfig()
                )
                ModelConfig.from_json(model.to_json())
                TrainConfig.from_json(train.to_json())

    seeds = ["set N=2 d_model=64 tie=none steps=none", "set d_modle=1", "set P_drop=1e-3 joint=no"]
    seeds += ["set positions=learned accumulate=none seed=12", "time 1h30m", "time 90", "rows A,B"]
    seeds += ["languages en-de", "lengths 10,20,40", "set N=" + "9" * 5_000]
    return Reader(read, [seed.encode() for seed in seeds])


def recipe(_: Material, folder: Path) -> Reader:
    """A recipe, and its comparison when a run is resumed."""
    from transduce.recipes.recipe import find, names, read
    from transduce.workflows.following import flat

    path = folder / "mine.toml"

    def follow(data: bytes) -> None:
        path.write_bytes(data)
        flat(read(path).tables)

    data = b'[data]\nname = "pocket"\n'
    own = b'[data]\nsource = "a.en"\ntarget = "a.de"\nvalid = ["v.tsv"]\ntest = "t.tsv"\n'
    seeds = [find(name).text.encode() for name in names()]
    seeds += [own + b'[train]\ntime = "1h30m"\nbatch = "auto"\n[evaluate]\nconfidence = 9\n']
    odd = [b"a = " + DEEP, data + b"[settings]\nx." + b"a." * 9_000 + b"a = 1", b""]
    odd += [data + b"[train]\nsteps = 0x" + b"9" * 5_000, data + b"[train]\nseed = " + b"9" * 5_000]
    odd += [data + b"[train]\ntime = '" + b"9" * 400 + b"s'", b"\xff", b"#" * (1 << 19)]
    return Reader(follow, [*seeds, *odd])


def http(material: Material, folder: Path) -> Reader:
    """Requests to every path of the service, with a fake engine."""
    from serving import scripted
    from transduce.serving.access import Access
    from transduce.serving.app import create_app

    served, engine = scripted(material.run)
    app = create_app([served], [material.run], access=Access(names={"localhost"}))
    loop = asyncio.new_event_loop()

    def read(data: bytes) -> None:
        engine.batches.clear()
        engine.settings.clear()
        status = loop.run_until_complete(status_of(app, data))
        if status >= 500:
            raise Wrong(f"status {status}")
        if status >= 400:
            raise TransduceError(f"status {status}")

    json_type, form = "application/json", "application/x-www-form-urlencoded"
    bodies = [
        ("POST /api/translate", json_type, '{"text": "Two dogs run.\\nOne.", "nbest": 2}'),
        ("POST /api/translate", json_type, '{"text": "a", "model": "tiny", "beam": 4, "split": 0}'),
        ("POST /api/inspect", json_type, '{"source": "Two dogs.", "target": "Zwei Hunde."}'),
        ("POST /api/explorer.html", json_type, '{"source": "Two dogs."}'),
        ("POST /translate", json_type, '{"q": ["a", "b"], "source": "en", "target": "de"}'),
        ("POST /translate", form, "q=a%20b&q=c&source=auto&target=de&alternatives=2"),
        ("POST /translate", "multipart/form-data; boundary=x", "--x\r\n\r\n--x--"),
        ("POST /api/translate", json_type, '{"text": "\\ud800"}'),
        ("POST /api/translate", json_type, "[" * 2_000),
        ("GET /api/models", "", ""),
        ("GET /api/runs", "", ""),
        ("GET /api/runs/data?run=tiny&since=ab.1.2.3", "", ""),
        ("GET /languages", "", ""),
        ("GET /metrics", "", ""),
        ("GET /openapi.json", "", ""),
        ("GET /../../etc/passwd", "", ""),
        ("DELETE /%2e%2e/%00%ff", "", ""),
    ]
    seeds = [
        f"{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n\r\n{body}".encode()
        for line, kind, body in bodies
    ]
    return Reader(read, seeds)


async def status_of(app: Any, data: bytes) -> int:
    """Send bytes to an ASGI app as a server would; return the status of the response."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, _, target = first.partition(b" ")
    raw, _, query = target.rpartition(b" ")[0].partition(b"?")
    headers = [line.partition(b":") for line in lines if b":" in line]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "".join(filter(str.isalpha, method.decode("ascii", "ignore"))).upper() or "GET",
        "scheme": "http",
        "path": unquote(raw.decode("ascii", "replace")),
        "raw_path": raw,
        "query_string": query,
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    half = len(body) // 2
    parts = [body[:half], body[half:]] if half else [body]
    left = asyncio.Event()  # the client stays connected until the response
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        if parts:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    if len(statuses) != 1:
        raise Wrong(f"{len(statuses)} answers")
    return statuses[0]


def _zst(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


# Each with its share of all inputs; speeds range from 50 to 4,000 inputs per second.
READERS: dict[str, tuple[Callable[[Material, Path], Reader], float]] = {
    "text": (text, 3.0),
    "pairs": (pairs, 2.0),
    "config": (config, 3.0),
    "state": (state, 1.5),
    "manifest": (manifest, 3.0),
    "tokens": (tokens, 1.0),
    "tensors": (tensors, 3.0),
    "header": (header, 3.0),
    "weights": (weights, 1.0),
    "subwords": (subwords, 3.0),
    "sentencepiece": (sentencepiece, 2.0),
    "rules": (rules, 0.3),
    "importing": (importing, 0.3),
    "tokenizer": (tokenizer, 2.0),
    "trees": (trees, 2.0),
    "lexicon": (lexicon, 1.5),
    "stamp": (stamp, 1.0),
    "logs": (logs, 1.0),
    "settings": (settings, 3.0),
    "recipe": (recipe, 1.0),
    "http": (http, 4.0),
}
