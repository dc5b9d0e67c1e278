"""A module imports only from those above it, and what needs no torch imports none."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import transduce

# The house, in the order that data walks through it.
ORDER = [
    "errors",
    "fields",
    "files",
    "progress",
    "aliases",
    "settings",
    "config",
    "presets",
    "folder",
    "formats",
    "text",
    "converting",
    "pocket",
    "sentences",
    "alignment",
    "showing",
    "translation",
    "subwords",
    "parts",
    "hypotheses",
    "corpus",
    "inputs",
    "encoding",
    "suspects",
    "preparation",
    "machine",
    "locks",
    "data",
    "batches",
    "packing",
    "padded",
    "graphs",
    "kernels",
    "linear",
    "fused",
    "packed_attention",
    "restricted",
    "additive",
    "attention",
    "cache",
    "transducer",
    "model",
    "baselines",
    "architecture",
    "marian",
    "loss",
    "schedule",
    "checkpoint",
    "metrics",
    "history",
    "search",
    "recording",
    "decoding",
    "scoring",
    "comparing",
    "heartbeat",
    "processes",
    "plan",
    "extension",
    "state",
    "log",
    "feed",
    "engine",
    "validation",
    "saving",
    "choice",
    "pacing",
    "trainer",
    "training",
    "export",
    "engines",
    "translator",
    "recipes",
    "parsing",
    "distillation",
    "importing",
    "inspection",
    "look",
    "web",
    "bench",
    "paper",
    "cli",
    "__main__",
]
WITHOUT_TORCH = ORDER[: ORDER.index("batches")]
OPTIONAL = {
    "sacremoses",
    "zstandard",
    "yaml",
    "transformers",
    "tensorboard",
    "matplotlib",
    "sentencex",
    "ctranslate2",
    "sentencepiece",
    "triton",
    "fastapi",
    "starlette",
    "pydantic",
    "pydantic_core",
    "h11",
    "uvicorn",
    "prometheus_client",
    "mtdata",
}
# Written in Triton, they are nothing without it; so they count as optional themselves.
IN_TRITON = {"transduce.kernels.attention", "transduce.kernels.decoding", "transduce.kernels.rows"}
# So does the service, which is nothing without these.
OF_THE_WEB = {
    *("fastapi", "starlette", "pydantic", "pydantic_core"),
    *("uvicorn", "h11", "prometheus_client"),
}

ROOT = Path(transduce.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    """Return the whole name of a module: transduce.cli.train."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, int]]:
    """Yield the whole names of what is imported anywhere in a module, and the lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            parts = [*(above if node.level else []), *([node.module] if node.module else [])]
            for alias in node.names:
                whole = ".".join([*parts, alias.name])
                known = whole in MODULES or parts == ["transduce"]
                yield whole if known else ".".join(parts), node.lineno


def package_of(name: str) -> str:
    is_package = MODULES[name].name == "__init__.py"
    return name if is_package else name.rpartition(".")[0]


def layer(name: str) -> str:
    """Return the part of the house that a module belongs to: cli of transduce.cli.train."""
    return name.split(".")[1] if "." in name else ""


def is_of_the_web(name: str) -> bool:
    """Tell whether a module is one of the service's that need its libraries."""
    return name.startswith("transduce.web.") and name != "transduce.web.limits"


def at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that importing a module executes, but for those for the type checker."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            waiting += statement.orelse
            continue
        yield statement
        for field in ("body", "orelse", "finalbody"):
            waiting += getattr(statement, field, [])
        for handler in getattr(statement, "handlers", []):
            waiting += handler.body


def modules_after(code: str) -> set[str]:
    """Return what a fresh Python has imported after some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_every_module_has_its_place_in_the_house() -> None:
    assert {layer(name) for name in MODULES} - {""} == set(ORDER)


@pytest.mark.parametrize("name", [name for name in MODULES if layer(name)])
def test_a_module_imports_only_from_those_above_it(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    own = layer(name)
    allowed = ["__version__", *ORDER[: ORDER.index(own) + 1]]
    for imported, line in imports(tree, package_of(name)):
        if imported.partition(".")[0] == "transduce":
            assert layer(imported) in allowed, f"line {line} of {name} imports {imported}"


@pytest.mark.parametrize("name", MODULES)
def test_an_optional_library_is_never_imported_before_it_is_needed(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    for statement in at_import(tree):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for imported, line in imports(ast.Module([statement], []), package_of(name)):
                library = imported.partition(".")[0]
                late = library in OPTIONAL or imported in IN_TRITON or is_of_the_web(imported)
                allowed = (
                    name in IN_TRITON and (library == "triton" or imported in IN_TRITON)
                ) or (is_of_the_web(name) and (library in OF_THE_WEB or is_of_the_web(imported)))
                assert not late or allowed, f"line {line} of {name} imports {imported}"


def test_training_needs_no_triton() -> None:
    found = modules_after(
        "import sys; sys.modules['triton'] = None\n"
        "import transduce.training\n"
        "assert not transduce.kernels.installed()\n"
        "sys.modules.pop('triton')\n"
    )
    assert "torch" in found
    assert "triton" not in found


def test_the_text_side_imports_no_torch() -> None:
    code = "\n".join(f"import transduce.{name}" for name in WITHOUT_TORCH)
    found = modules_after(code)
    assert {"transduce", "numpy", "tokenizers"} <= found
    assert "torch" not in found


def test_the_package_itself_imports_nothing_heavy() -> None:
    found = modules_after("import transduce; dir(transduce)")
    assert not {"torch", "numpy", "tokenizers", "sacrebleu"} & found


@pytest.mark.parametrize(
    "command",
    [
        *(
            "",
            "train",
            "distill",
            "translate",
            "serve",
            "score",
            "info",
            "plot",
            "bench",
            "settings",
        ),
        *(
            "demo",
            "watch",
            "export",
            "import",
            "convert",
            "look",
            "recipes",
            "data list",
            "data get",
        ),
        *("paper table1", "paper figures", "paper scaling", "paper positions", "paper smoothing"),
    ],
)
def test_help_answers_without_the_heavy_libraries(command: str) -> None:
    argv = ["transduce", *command.split(), "--help"]
    found = modules_after(
        f"import sys; sys.argv = {argv}\n"
        "from transduce.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
    )
    assert not {"torch", "numpy", "tokenizers", "safetensors", "sacrebleu"} & found


def test_the_public_names_are_there_and_no_others() -> None:
    assert transduce.__all__ == sorted(transduce.__all__)
    for name in transduce.__all__:
        assert getattr(transduce, name).__module__.startswith("transduce.")
        assert name in dir(transduce)
    with pytest.raises(AttributeError, match="has no attribute 'Trasformer'"):
        transduce.Trasformer  # noqa: B018


def test_a_function_stays_public_when_a_module_is_imported() -> None:
    """A submodule named as a public function would replace it in the package."""
    assert not set(transduce.__all__) & {path.stem for path in ROOT.iterdir()}
