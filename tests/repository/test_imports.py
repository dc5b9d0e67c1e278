"""Which package may import which, what imports no torch, and what the public names are."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import transduce

# Package: the packages that it may import. Imports inside functions count, and so do files that one
# package reads from another. The most specific row holds.
TABLE = {
    "errors": "",
    "settings": "errors",
    "system": "errors settings",
    "config": "errors settings",
    "presets": "config errors",
    "text": "errors system",
    "subwords": "errors system",
    "datasets": "errors settings system text",
    "corpus": "config errors settings subwords system text",
    "batching": "config corpus errors subwords",
    "runs": "config corpus errors settings system",
    "model": "batching config subwords system",
    "checkpoints": "config errors model runs system",
    "translation.types": "config",
    "decoding": "batching config errors model subwords system translation.types",
    "evaluation": "errors system text",
    "training": "batching checkpoints config corpus decoding errors evaluation model presets runs "
    "settings subwords system text translation.types",
    "interop.marian": "config model",
    "interop.converting": "config errors text",
    "interop.export": "checkpoints config errors interop.marian runs subwords system",
    "interop.importing": "checkpoints config errors interop.marian runs settings subwords system "
    "text",
    "translation": "batching checkpoints config decoding errors interop.export model runs subwords "
    "system text translation.types",
    "recipes": "config datasets errors presets settings system text",
    "workflows": "config corpus errors evaluation presets recipes runs settings system text "
    "training translation",
    "parsing": "config corpus decoding errors presets runs settings subwords system text training "
    "translation translation.types",
    "pages": "",
    "inspection": "batching errors model pages runs subwords system translation translation.types",
    "serving": "config errors inspection pages runs system text translation translation.types",
    "bench": "batching checkpoints config corpus errors evaluation interop.export model presets "
    "runs subwords system text training translation",
    "experiments": "batching bench checkpoints config corpus datasets errors evaluation inspection "
    "model pages parsing presets runs settings subwords system text training translation",
}
TOP = {"cli", "__main__", ""}  # these may import everything
WITHOUT_TORCH = [
    "system",
    "text",
    "subwords",
    "datasets",
    "corpus",
    "runs",
    "recipes",
    "translation",
    "interop.converting",
    "pages",
]
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
IN_TRITON = {
    "transduce.model.ops.triton.attention",
    "transduce.model.ops.triton.decoding",
    "transduce.model.ops.triton.rows",
}
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


def row(name: str) -> str:
    """Return the row of the table that holds for a module, or its package."""
    parts = name.split(".")[1:]
    rows = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((row for row in rows if row in TABLE), "".join(parts[:1]))


def is_of_the_web(name: str) -> bool:
    """Tell whether a module is one of the service's that need its libraries."""
    return name.startswith("transduce.serving.") and name != "transduce.serving.limits"


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


def test_the_table_has_no_cycle_and_no_stranger() -> None:
    """A package stands below all that may import it: the rows are in such an order."""
    assert {row(name) for name in MODULES} - TOP - {"interop"} == set(TABLE)
    above: set[str] = set()
    for package, allowed in TABLE.items():
        assert set(allowed.split()) <= above, package
        above.add(package)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_its_package_may(name: str) -> None:
    source = MODULES[name].read_text(encoding="utf-8")
    own = row(name)
    if own in TOP:
        return
    allowed = {own, "__version__", *TABLE.get(own, "").split()}
    for imported, line in imports(ast.parse(source), package_of(name)):
        if imported.partition(".")[0] == "transduce":
            assert row(imported) in allowed, f"line {line} of {name} imports {imported}"
    for folder in re.findall(r'parents?(?:\[1\])? / "(\w+)"', source):
        assert folder not in TABLE or folder in allowed, f"{name} reads files of {folder}"


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
        "import transduce.training.train\n"
        "assert not transduce.model.ops.kernels.installed()\n"
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
