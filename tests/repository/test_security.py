"""Untrusted files: reading them runs no code, uses little memory and writes nowhere else."""

import ast
import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine, environment

import hostile_files
import transduce
from faults.fuzz import resident
from faults.readers import status_of
from serving import ask, error, post, scripted
from transduce.errors import BadRun
from transduce.interop.export.ctranslate2 import export, is_export_of
from transduce.interop.export.shapes import shapes
from transduce.runs.folder import RunConfig
from transduce.runs.locks import locked_run
from transduce.runs.metrics import Metrics
from transduce.serving.app import create_app
from transduce.subwords import Codec
from transduce.translation.translator import Translator

SOURCES = sorted(Path(transduce.__file__).parent.rglob("*.py"))

# Modules and functions through which a file could run code.
MODULES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "joblib", "jsonpickle"),
    *("marshal", "shelve", "runpy", "code", "codeop"),
}
FUNCTIONS = {
    *("eval", "exec", "compile", "__import__", "importlib.reload", "os.system", "os.popen"),
    *("torch.load", "torch.jit.load", "torch.package.PackageImporter", "torch.hub.load"),
    *("numpy.load", "numpy.fromfile", "yaml.SafeLoader"),
}
# Of PyYAML only the parser, which creates events and no objects.
OF_YAML = {"yaml.parse", "yaml.SafeLoader", "yaml.YAMLError"}
# Modules that reach outside the process: sockets, other programs, the network.
REACHING = {
    *("subprocess", "socket", "ssl", "pty", "webbrowser", "multiprocessing", "socketserver"),
    *("urllib.request", "http.client", "ftplib", "smtplib", "httpx", "requests", "aiohttp"),
    *("asyncio.open_connection", "asyncio.create_subprocess_exec", "huggingface_hub"),
    *("asyncio.create_subprocess_shell", "os.fork", "os.execv", "os.execvp", "os.spawnv"),
    *("torch.distributed", "uvicorn", "wandb", "mlflow"),
}
ALLOWED = {
    ("bench/workers.py", "multiprocessing"),  # each measured side in its own process
    ("cleaning/checking.py", "multiprocessing"),  # rules on several cores
    ("experiments/side_by_side.py", "multiprocessing"),  # each training run in its own process
    ("cli/serve.py", "webbrowser"),  # for --open
    ("datasets/downloading.py", "http.client"),  # for `transduce data get`
    ("datasets/downloading.py", "urllib.request"),
    ("runs/tracking.py", "mlflow"),  # for `train --mlflow`
    ("runs/tracking.py", "wandb"),  # for `train --wandb`
    ("training/distributed/heartbeat.py", "socket"),  # the name of this machine
    ("training/distributed/processes.py", "torch.distributed"),  # between torchrun's processes
    ("serving/access.py", "socket"),  # the socket of the service
    ("serving/server.py", "socket"),  # the service itself
    ("serving/server.py", "uvicorn"),
    ("serving/origins.py", "socket"),  # the name of this machine
}


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path.relative_to(SOURCES[0].parent), ast.parse(path.read_bytes())


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the full names of imported modules and of names imported from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def renamed(tree: ast.Module) -> dict[str, str]:
    """Return the full names of imported names and aliases."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    return names


def called(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with the full name of the called function, aliases resolved."""
    names = renamed(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            yield names.get(first, first) + dot + rest, node


def of_yaml(tree: ast.Module) -> Iterator[str]:
    """Yield everything used of PyYAML; "yaml" if the module itself is passed on."""
    names = renamed(tree)
    yield from (name for name in imported(tree) if name.startswith("yaml."))
    inner = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and node not in inner:
            first, dot, rest = ast.unparse(node).partition(".")
            name = names.get(first, first) + dot + rest
            if name == "yaml" or name.startswith("yaml."):
                yield name


def test_nothing_in_the_sources_can_run_code_from_a_file() -> None:
    found = []
    for path, tree in trees():
        found += [f"{path}: import {n}" for n in imported(tree) if n.partition(".")[0] in MODULES]
        for name, call in called(tree):
            if name in FUNCTIONS:
                found.append(f"{path}:{call.lineno}: {name}")
            for option in call.keywords:
                if option.arg in {"shell", "allow_pickle", "trust_remote_code", "weights_only"}:
                    found.append(f"{path}:{call.lineno}: {option.arg}=")
        found += [f"{path}: {name}" for name in of_yaml(tree) if name not in OF_YAML]
    assert not found


def test_the_scan_finds_what_it_looks_for() -> None:
    tree = ast.parse(
        "import numpy as np\nfrom torch import load as fetch\nnp.load(f)\nfetch(f)\neval(x)\n"
        "model.eval()\nre.compile(x)\n'eval(x)'"
    )
    assert [name for name, _ in called(tree) if name in FUNCTIONS] == [
        *("numpy.load", "torch.load", "eval")
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import yaml\nyaml.load_all(f)", ["yaml.load_all"]),
        ("import yaml\nyaml.compose(f)", ["yaml.compose"]),
        ("import yaml as y\nread = y.full_load_all", ["yaml.full_load_all"]),
        ("from yaml import load_all as read", ["yaml.load_all"]),
        ("from yaml.loader import Loader", ["yaml.loader", "yaml.loader.Loader"]),
        ("import yaml\ngetattr(yaml, 'load')(f)", ["yaml"]),
        ("import yaml\nyaml.SafeLoader(f).get_data()", ["yaml.SafeLoader(f).get_data"]),
        ("import yaml\nyaml.parse(f, Loader=yaml.SafeLoader)\ndata.yaml.load(f)", []),
    ],
)
def test_the_scan_finds_all_of_yaml_but_its_parser(code: str, found: list[str]) -> None:
    assert [name for name in of_yaml(ast.parse(code)) if name not in OF_YAML] == found


def test_only_listed_modules_reach_outside_the_process() -> None:
    found = set()
    for path, tree in trees():
        names = {*imported(tree), *(name for name, _ in called(tree))}
        for module in REACHING:
            if any(f"{name}.".startswith(f"{module}.") for name in names):
                found.add((path.as_posix(), module))
    assert found == ALLOWED


@pytest.fixture(scope="module")
def read(
    tiny_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[str, str, float]]:
    """The outcome of reading each hostile file with little memory."""
    folder = tmp_path_factory.mktemp("hostile")
    done = subprocess.run(
        [sys.executable, hostile_files.__file__, str(tiny_run), str(folder)],
        capture_output=True,
        env=environment({"PYTHONPATH": os.pathsep.join(sys.path)}),
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    outcomes: dict[str, tuple[str, str, float]] = json.loads(done.stdout)
    return outcomes


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited as Linux does")
@pytest.mark.parametrize("name", hostile_files.CASES)
def test_a_hostile_file_is_refused_with_little_memory_and_time(
    name: str, read: dict[str, tuple[str, str, float]]
) -> None:
    kind, sentence, seconds = read[name]
    assert kind == "refused", sentence
    assert "/" in sentence  # the path of the file
    assert seconds < 5


def test_loading_a_model_imports_no_module_from_its_folder(
    own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = ("torch", "ctranslate2")
    before = [Translator.load(own_run, engine=engine)("a dog") for engine in engines]
    for name in ("model", "sitecustomize", "tokenizer", "modeling_marian"):
        (own_run / f"{name}.py").write_text("raise SystemExit('it has run')")
    monkeypatch.chdir(own_run)
    after = [Translator.load(own_run, engine=engine)("a dog") for engine in engines]
    assert after == before


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
def test_a_link_in_a_run_does_not_redirect_writes(name: str, own_run: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text('{"step": 1}\n')
    (own_run / name).unlink(missing_ok=True)
    (own_run / name).symlink_to(precious)
    with (
        pytest.raises(BadRun, match="is a link"),
        locked_run(own_run),
        Metrics(own_run, 10),
    ):
        pass
    assert precious.read_text() == '{"step": 1}\n'


def test_names_in_a_stamp_cannot_reach_other_files(own_run: Path, tmp_path: Path) -> None:
    """Files elsewhere must not be read, nor an endless device."""
    export(own_run, tmp_path / "out", "none")
    stamp = tmp_path / "out" / "transduce.json"
    content = json.loads(stamp.read_bytes())
    wanted = {name: content[name] for name in content if name not in ("sha256", "files")}
    assert is_export_of(tmp_path / "out", wanted)
    for name in ("../../../x", "/dev/zero", "/etc/passwd"):
        hostile_files.reseal(stamp, files={name: "0" * 64})
        assert not is_export_of(tmp_path / "out", wanted)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "tiny/../tiny", "..", "\0"])
def test_a_name_that_a_client_sends_is_never_a_path(name: str, tiny_run: Path) -> None:
    app = create_app([scripted(tiny_run)[0]], [tiny_run])
    assert "there is no model" in error(
        post(app, "/api/translate", {"text": "a", "model": name}), 404
    )
    response = ask(app, "GET", "/api/runs/data", params={"run": name})
    assert "there is no run" in error(response, 404)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is told as Linux does")
def test_the_cache_of_words_is_limited(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subwords cache the pieces of words; without a limit, 10,000 of these take 90 MB."""
    monkeypatch.setattr("transduce.subwords.learned.LOADED_CACHE", 100)
    subwords, draw = Codec.load(tiny_run / "subwords.json").source, random.Random(1)
    before = resident()
    for _ in range(10):
        subwords.encode_batch([draw.randbytes(125).hex() for _ in range(1_000)])
    assert resident() - before < 45


def test_a_query_that_is_not_text_is_answered_with_400(tiny_run: Path) -> None:
    app = create_app([scripted(tiny_run)[0]])
    for path in (b"/nowhere", b"/api/models", b"/api/models/"):
        request = b"GET " + path + b"?a=\xf4 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        assert asyncio.run(status_of(app, request)) == 400


def test_the_shapes_of_a_model_are_known_without_building_it() -> None:
    from models import small_model

    several: list[dict[str, Any]] = [
        {},
        {"tie": "decoder", "target_vocabulary": 40},
        {"tie": "none", "d_v": 6, "d_k": 4, "N_decoder": 1, "logits_bias": True},
        {"positions": "learned", "attention_bias": True},
    ]
    for changes in several:
        model = small_model(**changes)
        actual = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
        assert shapes(model.config) == actual


def test_a_config_with_wrong_types_is_refused(own_run: Path, cli: CommandLine) -> None:
    several: list[dict[str, Any]] = [{"languages": "en"}, {"chosen": 1}, {"versions": []}]
    for changes in [*several, {"weights": None}]:
        before = (own_run / "config.json").read_bytes()
        hostile_files.reseal(own_run / "config.json", **changes)
        assert "config.json is damaged" in cli("info", own_run).error
        with pytest.raises(BadRun, match="damaged"):
            RunConfig.load(own_run)
        (own_run / "config.json").write_bytes(before)
