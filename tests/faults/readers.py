"""Everything that reads bytes from outside, each as a function of the bytes.

A reader takes its input, or refuses it by one of our errors. Whatever else comes out is a defect.
Checksums are made to fit what was changed: whoever means harm can do that too.
"""

import asyncio
import copy
import gzip
import hashlib
import json
import lzma
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from transduce.errors import TransduceError
from transduce.files import checksum

Read = Callable[[bytes], None]

# What programs stumble over, as the value of anything.
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**12, 10**18, -(10**18), 10**400),
    *(0.5, -0.0, 1e308, 1e400, -1e400, float("nan")),
    *("", "a", "\0", "\ud800", "../../x", "/etc/passwd", "/dev/zero", "é" * 300, "0", "object"),
    *([], {}, [[]], [None], {"": None}, [0, 0], "x" * 5_000),
]
DEEP = b"[" * 5_000


class Wrong(Exception):
    """An answer that is none of those promised."""


@dataclass(frozen=True)
class Material:
    """Real files, whose bytes the inputs begin with."""

    run: Path  # a small one, trained
    marian: Path  # a folder of Hugging Face's


@dataclass(frozen=True)
class Reader:
    """A reader, inputs that it takes, and whether these are JSON."""

    read: Read
    seeds: list[bytes]
    is_json: bool = False

    def outcome(self, data: bytes) -> str:
        """Read an input; return what came of it, or raise what is a defect."""
        try:
            self.read(data)
        except TransduceError as error:
            sentence = str(error)
            if not sentence.strip() or len(sentence) > 20_000:
                raise Wrong(f"an error of {len(sentence):,} characters") from error
            return "refused"
        return "taken"

    def mutated(self, data: bytes, draw: random.Random) -> bytes | None:
        """Return JSON that is changed in one place and still JSON; nothing where it is none."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            value = changed(value, draw)
        try:
            return json.dumps(value).encode()
        except (ValueError, RecursionError):  # a number of 5,000 digits, or too deep
            return None


def changed(value: Any, draw: random.Random) -> Any:
    """Return a JSON value with one place of it changed."""
    places = list(_places(value))
    odd = copy.deepcopy(draw.choice(ODD))
    if not places:
        return odd
    inside, key = draw.choice(places)
    match draw.randrange(6):
        case 0:
            del inside[key]
        case 1:
            other, of = draw.choice(places)
            if key in inside if isinstance(inside, dict) else key < len(inside):
                inside[key] = json.loads(json.dumps(other[of]))
        case 2 if isinstance(inside, dict):
            inside[draw.choice(["", "x", "format", "model", "../x", "N"])] = odd
        case 3 if isinstance(inside[key], int | float) and abs(inside[key]) < 1e300:
            inside[key] = draw.choice([inside[key] + 1, -inside[key], inside[key] * 10**9, 0])
        case _:
            inside[key] = odd
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all places of a JSON value, of long lists only some."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = list(one)[:64] if isinstance(one, dict) else []
        if isinstance(one, list):
            keys = list(range(min(len(one), 8)))
        for key in keys:
            yield one, key
            if isinstance(one[key], dict | list):
                waiting.append(one[key])


def sealed(data: bytes, version: int = 1) -> bytes:
    """Return a JSON object with the checksum that fits it; what is none stays as it is."""
    try:
        content = json.loads(data)
        content.pop("sha256", None)
        content.setdefault("format", version)
        return json.dumps({"sha256": checksum(content), **content}).encode()
    except (ValueError, RecursionError, AttributeError, TypeError):
        return data


def text(_: Material, folder: Path) -> Reader:
    """Plain and compressed text; the first byte chooses what the file is called."""
    from transduce.text import open_lines

    names = ["text", "text.gz", "text.xz", "text.zst", "text.en"]

    def read(data: bytes) -> None:
        path = folder / names[data[0] % len(names) if data else 0]
        path.write_bytes(data[1:])
        for line in open_lines(path):
            if "\n" in line or "\0" in line:
                raise Wrong(f"a line holds {line!r}")
            line.encode()

    plain = "Zwei Hunde laufen.\r\nÜber das Gras.\n\n日本語".encode()
    packed = [gzip.compress(plain, mtime=0), lzma.compress(plain), _zst(plain)]
    cut = [one[: len(one) // 2] for one in packed]
    odd = [b"\xef\xbb\xbf" + plain, plain.decode().encode("utf-16"), b"a\0b\n", b"\xff\n", b""]
    several = [one + other for one in packed for other in packed]
    seeds = [plain, *packed, *cut, *odd, *several, packed[0] + b"\0" * 9]
    return Reader(read, [bytes([n % 5]) + one for n, one in enumerate(seeds)] + [b"\0" + plain])


def pairs(_: Material, folder: Path) -> Reader:
    """A TSV, or two files with a form feed between their bytes."""
    from transduce.text import read_pairs

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


def config(material: Material, folder: Path) -> Reader:
    """config.json of a run, as commands that load it do."""
    from transduce.folder import RunConfig
    from transduce.web.runs import Watched

    def read(data: bytes) -> None:
        (folder / "config.json").write_bytes(sealed(data))
        loaded = RunConfig.load(folder)
        loaded.save(folder)
        if RunConfig.load(folder) != loaded:
            raise Wrong("it reads otherwise when it is written again")
        watched = Watched("run", folder)
        watched.look()
        _sent(watched.summary())

    stored = (material.run / "config.json").read_bytes()
    return Reader(read, [stored, DEEP, b"{}", b"[]"], is_json=True)


def state(material: Material, folder: Path) -> Reader:
    """state.json of a checkpoint."""
    from transduce.folder import Checkpoint
    from transduce.state import State

    def read(data: bytes) -> None:
        (folder / "state.json").write_bytes(sealed(data))
        State.from_json(Checkpoint(1, scheduled=True, path=folder).state()).to_json()

    stored = next(material.run.glob("checkpoints/*/state.json")).read_bytes()
    return Reader(read, [stored, DEEP, b"{}"], is_json=True)


def manifest(material: Material, folder: Path) -> Reader:
    """The manifest of a corpus whose other files are whole."""
    from transduce.corpus import open_corpus

    shutil.copytree(material.run / "corpus", folder, dirs_exist_ok=True)

    def read(data: bytes) -> None:
        (folder / "manifest.json").write_bytes(sealed(data))
        corpus = open_corpus(folder)
        str(corpus.manifest.train)
        corpus.train.pair(0)

    stored = (material.run / "corpus" / "manifest.json").read_bytes()
    return Reader(read, [stored, DEEP, b"{}"], is_json=True)


def tokens(material: Material, folder: Path) -> Reader:
    """Token files and offsets that the manifest agrees with; the first byte chooses which."""
    from transduce.corpus import TOKEN_FILES, open_corpus

    origin = material.run / "corpus"
    shutil.copytree(origin, folder, dirs_exist_ok=True)
    whole = {name: (origin / name).read_bytes() for name in TOKEN_FILES}
    known = json.loads((origin / "manifest.json").read_bytes())

    def read(data: bytes) -> None:
        name = TOKEN_FILES[data[0] % len(TOKEN_FILES)] if data else TOKEN_FILES[0]
        (folder / name).write_bytes(data[1:])
        facts = {"size": len(data[1:]), "sha256": hashlib.sha256(data[1:]).hexdigest()}
        files = known["files"] | {name: facts}
        (folder / "manifest.json").write_bytes(
            sealed(json.dumps(known | {"files": files}).encode())
        )
        try:
            corpus = open_corpus(folder)
            for part in (corpus.train, corpus.valid):
                part.pair(len(part) - 1)
                part.source.take(part.source.lengths.argsort()[:3])
        finally:
            (folder / name).write_bytes(whole[name])

    seeds = [bytes([place]) + whole[name] for place, name in enumerate(TOKEN_FILES)]
    return Reader(read, [*seeds, b"\0", b"\1" + struct.pack("<qqq", 0, 2**62, 3)])


def tensors(material: Material, folder: Path) -> Reader:
    """The bytes of a file of weights."""
    from transduce.folder import count_numbers, load_arrays

    path = folder / "model.safetensors"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        count_numbers(path)
        load_arrays(path)

    return Reader(read, [*_small_tensors(), b"\xff" * 8, b"", struct.pack("<Q", 2) + b"{}"])


def header(material: Material, folder: Path) -> Reader:
    """The header of a file of weights, with the length that fits, before 4 KB of numbers."""
    from safetensors.numpy import load_file

    from transduce.folder import KEY, count_numbers, digest, load_arrays

    path = folder / "model.safetensors"

    def read(data: bytes) -> None:
        path.write_bytes(_with_numbers(data))
        try:
            note = json.dumps({"format": 1, "sha256": digest(load_file(path))})
            noted = json.loads(data) | {"__metadata__": {KEY: note}}
            path.write_bytes(_with_numbers(json.dumps(noted).encode()))
        except Exception:
            path.write_bytes(_with_numbers(data))
        count_numbers(path)
        load_arrays(path)

    def described(**entries: Any) -> bytes:
        return json.dumps({"__metadata__": {"transduce": "{}"}} | entries).encode()

    kinds = [*("F32", "F16", "BF16", "F64", "I8", "U8", "BOOL", "F8_E4M3", "I64", "U16", "C64")]
    seeds = [
        described(a={"dtype": kind, "shape": [4096 // size], "data_offsets": [0, 4096]})
        for kind, size in zip(kinds, (4, 2, 2, 8, 1, 1, 1, 1, 8, 2, 8), strict=True)
    ]
    huge = described(a={"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4096]})
    two = {"dtype": "U8", "shape": [4096], "data_offsets": [0, 4096]}
    none = {"dtype": "U8", "shape": [0, 2**62], "data_offsets": [0, 0]}
    return Reader(read, [*seeds, huge, described(a=two, b=two), described(a=none)], is_json=True)


def weights(material: Material, folder: Path) -> Reader:
    """A model whose settings, or whose tensors' names and shapes, are not what they should be.

    JSON of two objects: settings of the model, and by the tensors' names what shape each has.
    """
    import numpy as np
    import torch
    from safetensors.numpy import save

    from transduce.checkpoint import load_model
    from transduce.export.ctranslate2 import shapes
    from transduce.folder import KEY, RunConfig, digest, require_alike, shapes_of

    stored = json.loads((material.run / "config.json").read_bytes())
    cpu = torch.device("cpu")

    def read(data: bytes) -> None:
        asked = _object(data)
        content = stored | {"model": asked.get("model"), "owns": {}}  # so that others are read
        (folder / "config.json").write_bytes(sealed(json.dumps(content).encode()))
        config = RunConfig.load(folder)
        arrays = {}
        for name, shape in _object(asked.get("shapes")).items():
            if not isinstance(shape, list) or not all(type(one) is int for one in shape):
                continue
            if all(0 <= one < 10**5 for one in shape) and np.prod(shape, dtype=float) < 10**5:
                arrays[name] = np.zeros(shape, "float32")
        try:
            note = json.dumps({"format": 1, "sha256": digest(arrays)})
            (folder / "model.safetensors").write_bytes(save(arrays, {KEY: note}))
        except UnicodeEncodeError:
            return
        load_model(folder, config, cpu)
        require_alike(shapes(config.model), shapes_of(folder / "model.safetensors"), folder)

    seed = json.dumps(
        {"model": stored["model"], "shapes": shapes_of(material.run / "model.safetensors")}
    ).encode()
    return Reader(read, [seed, b"{}"], is_json=True)


def subwords(material: Material, folder: Path) -> Reader:
    """subwords.json of each kind, and a text through what it gives."""
    from transduce.subwords import Codec, Coder, SentencePiece, Subwords, Symbols

    lines = ["two dogs run over the grass", "zwei Hunde laufen", "größer"]
    path = folder / "subwords.json"

    def read(data: bytes) -> None:
        path.write_bytes(sealed(data))
        codec = Codec.load(path)
        for side in {id(one): one for one in (codec.source, codec.target)}.values():
            side.pieces(side.encode("Two dögs run.")[:64])
            side.forbidden()
        _ = codec.sha256

    seeds = []
    small = Subwords.learn(lines, 270)
    sides: list[tuple[Coder, Coder]] = [
        (small, small),
        (Subwords.learn(lines, 530, "wordpiece"), small),
        (small, Symbols(["(S", ")"])),
    ]
    for source, target in sides:
        Codec(source, target).save(path)
        seeds.append(path.read_bytes())
    pieces = [("▁two", -1.0, 1), ("▁", -2.0, 1), ("d", -3.0, 1), ("<s>", 0.0, 3)]
    own = SentencePiece(
        ["<pad>", "<s>", "</s>", "<unk>", "▁two", "▁", "d"],
        pieces,
        charsmap=b"",
        prefix=True,
        squeeze=True,
    )
    Codec(own, own).save(path)
    return Reader(read, [*seeds, path.read_bytes(), DEEP, b"{}"], is_json=True)


def sentencepiece(material: Material, folder: Path) -> Reader:
    """A SentencePiece model, and a text through it."""
    from transduce.subwords import SentencePiece

    names = json.loads((material.marian / "vocab.json").read_bytes())
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    ours = [*special, *(name for name in names if name not in special)]
    path = folder / "source.spm"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        side = SentencePiece.read(path, ours)
        side.encode("Two dögs ① ｆｕｌｌ.")

    stored = (material.marian / "source.spm").read_bytes()
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(stored)
    del proto.pieces[12:]
    proto.normalizer_spec.precompiled_charsmap = b""
    return Reader(read, [proto.SerializeToString(), b""])


def rules(material: Material, folder: Path) -> Reader:
    """SentencePiece's rules of normalisation, as stored in its file."""
    from sentencepiece import sentencepiece_model_pb2

    from transduce.subwords.sentencepiece import Rules

    def read(data: bytes) -> None:
        try:
            found = Rules(data)
        except ValueError as error:  # which whoever reads the file turns into a sentence
            raise TransduceError(str(error)) from None
        found.apply("Two dögs ① ｆｕｌｌ é")

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((material.marian / "source.spm").read_bytes())
    stored = proto.normalizer_spec.precompiled_charsmap
    tiny = struct.pack("<IIII", 12, 1 << 10, 0x141, 0x80000000) + b"b\0"
    return Reader(read, [stored, tiny, b""])


def importing(material: Material, folder: Path) -> Reader:
    """The JSON files of a Marian folder, whose weights are whole."""
    from transduce.importing import import_model

    origin = folder / "theirs"
    shutil.copytree(material.marian, origin, dirs_exist_ok=True)
    names = ("config", "tokenizer_config", "generation_config", "vocab")

    def read(data: bytes) -> None:
        asked = _object(data)
        for name in names:
            (origin / f"{name}.json").write_text(json.dumps(asked.get(name)))
        shutil.rmtree(folder / "run", ignore_errors=True)
        import_model(origin, folder / "run")

    seed = {name: json.loads((origin / f"{name}.json").read_bytes()) for name in names}
    return Reader(read, [json.dumps(seed).encode()], is_json=True)


def tokenizer(material: Material, folder: Path) -> Reader:
    """The tokenizer.json of a folder that `transduce export` has written, on its import."""
    from transduce.importing.settings import Theirs
    from transduce.importing.vocabulary import read_sides
    from transduce.subwords import Subwords

    config = json.loads((material.marian / "config.json").read_bytes())
    special = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config | special))

    def read(data: bytes) -> None:
        (folder / "tokenizer.json").write_bytes(data)
        source, _ = read_sides(Theirs.read(folder))
        source.subwords.encode("Two dögs run.")

    small = Subwords.learn(["two dogs run over the grass"], 270)
    return Reader(read, [json.dumps(small.to_json()).encode(), DEEP], is_json=True)


def trees(_: Material, folder: Path) -> Reader:
    """Trees in brackets."""
    from transduce.parsing.trees import plain, read_trees

    path = folder / "trees"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for tree in read_trees(path):
            tree.indented()
            tree.words()
            if (simple := plain(tree)) is not None:
                str(simple)

    whole = b"( (S (NP-SBJ-1 (NN Annexin)) (VP (VBZ binds) (NP (NN calcium))) (. .)) )\n"
    seeds = [whole, whole[:-4], b"(S (-NONE- *))", b"(" * 3_000, b"()", b"(A b c)", b"a", b""]
    return Reader(read, [*seeds, b"(A " * 2_000 + b"(B c)" + b")" * 2_000])


def lexicon(_: Material, folder: Path) -> Reader:
    """lexicon.json of a parser."""
    from transduce.parsing.lexicon import Lexicon

    path = folder / "lexicon.json"

    def read(data: bytes) -> None:
        path.write_bytes(sealed(data))
        Lexicon.load(path).of("the")

    Lexicon((("NN", "VB"), ("DT",)), {"the": 1, "a": 1}).save(path)
    return Reader(read, [path.read_bytes(), DEEP], is_json=True)


def stamp(material: Material, folder: Path) -> Reader:
    """What an export says of itself."""
    from transduce.export.ctranslate2 import STAMP, is_export_of

    content = {"format": 1, "weights": "a", "files": {"model.bin": "b", "config.json": "c"}}

    def read(data: bytes) -> None:
        (folder / STAMP).write_bytes(sealed(data))
        is_export_of(folder, {"format": 1, "weights": "a"})

    return Reader(read, [json.dumps(content).encode(), DEEP], is_json=True)


def logs(material: Material, folder: Path) -> Reader:
    """metrics.jsonl, and after a form feed samples.jsonl: drawn, watched, and gone on with."""
    from transduce import history
    from transduce.metrics import forget_after
    from transduce.web.runs import Board

    run = folder / "run"
    run.mkdir(exist_ok=True)
    shutil.copy(material.run / "config.json", run)
    metrics, samples = run / "metrics.jsonl", run / "samples.jsonl"

    def read(data: bytes) -> None:
        first, _, second = data.partition(b"\f")
        metrics.write_bytes(first)
        samples.write_bytes(second)
        board = Board([run])
        _sent(board.summaries())
        _sent(board.since("run", ""))
        forget_after(samples, 10)
        try:
            logged = history.read(run, "run")
            logged.curve("loss", None)
            logged.curve("valid_loss", 60.0)
        finally:
            forget_after(metrics, 10)

    stored = [(material.run / f"{name}.jsonl").read_bytes() for name in ("metrics", "samples")]
    lines = stored[0].splitlines(keepends=True)
    odd = [b'{"step": 1e308, "loss": 1, "seconds": 1e308}\n', DEEP + b"\n", b'{"step": "1"}\n']
    return Reader(read, [b"\f".join(stored), b"".join(lines[:2]), *odd, b"\f" + stored[1]])


def settings(_: Material, folder: Path) -> Reader:
    """Values of the command line: settings, times, languages, lists of rows and of lengths."""
    from transduce.cli.paper.options import listed
    from transduce.cli.paper.table1 import _lengths
    from transduce.cli.train import parse_settings, parse_time
    from transduce.config import ModelConfig, TrainConfig, apply
    from transduce.text import languages

    def read(data: bytes) -> None:
        kind, _, rest = data.decode("utf-8", "surrogateescape").partition(" ")
        match kind:
            case "time":
                parse_time(rest)
            case "languages":
                languages("", "", rest)
                languages(rest, None)
                languages(rest, rest)
            case "rows":
                listed(rest)
            case "lengths":
                _lengths(rest)
            case _:
                model, train = apply(parse_settings(rest.split(" ")), ModelConfig(), TrainConfig())
                ModelConfig.from_json(model.to_json())
                TrainConfig.from_json(train.to_json())

    seeds = ["set N=2 d_model=64 tie=none steps=none", "set d_modle=1", "set P_drop=1e-3 joint=no"]
    seeds += ["set positions=learned accumulate=none seed=12", "time 1h30m", "time 90", "rows A,B"]
    seeds += ["languages en-de", "lengths 10,20,40", "set N=" + "9" * 5_000]
    return Reader(read, [seed.encode() for seed in seeds])


def http(material: Material, folder: Path) -> Reader:
    """Requests to every path of the service, whose engine answers at once."""
    from serving import scripted
    from transduce.web.access import Access
    from transduce.web.app import create_app

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
    """Send an app what a server would make of these bytes; return the status of its answer."""
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
    left = asyncio.Event()  # the client stays until it has its answer
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


def _sent(value: Any) -> None:
    """Write an answer of the service."""
    from transduce.web.problems import json_response

    json_response(value)


def _object(value: Any) -> dict[str, Any]:
    """Return the object of some JSON, or an empty one."""
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _with_numbers(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(4096)


def _small_tensors() -> list[bytes]:
    import numpy as np
    from safetensors.numpy import save

    from transduce.folder import KEY, digest

    arrays = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.zeros(2, "int64")}
    note = json.dumps({"format": 1, "sha256": digest(arrays)})
    return [save(arrays, {KEY: note}), save(arrays, {KEY: "[" * 3_000}), save(arrays)]


def _zst(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


# Each with its share of all inputs: by how much it does, and how fast, 50 a second to 4,000.
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
    "http": (http, 4.0),
}
