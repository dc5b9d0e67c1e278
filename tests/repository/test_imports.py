"""Which package may import which, which packages import no torch, and the public names."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_python import libraries_after

import transduce
from transduce import errors

# Package: the packages that it may import. A package comes after those that it imports, so there
# are no cycles. Imports inside functions count. The most specific row applies to a module.
TABLE = {
    "errors": "",
    "settings": "errors",
    "system": "errors settings",
    "config": "errors settings",
    "presets": "config errors",
    "text": "errors system",
    "subwords": "errors system",
    "markup": "errors system text",
    "glossary": "errors markup system text",
    "documents": "errors markup system text",
    "datasets": "errors settings system text",
    "corpus": "config errors glossary markup settings subwords system text",
    "batching": "config corpus errors subwords",
    "runs": "config corpus errors settings system text",
    "model.positions": "",
    "model": "batching config errors model.positions subwords system",
    "checkpoints": "config errors model runs system",
    "translation.types": "config",
    "decoding": "batching config errors model subwords system translation.types",
    "pages": "",
    "evaluation": "errors pages system text",
    "training": "batching checkpoints config corpus decoding errors evaluation model presets runs "
    "settings subwords system text translation.types",
    "interop.marian": "config model",
    "interop.dictionary": "errors",
    "interop.converting": "config errors interop.dictionary text",
    "interop.export": "checkpoints config errors interop.marian model.positions runs subwords "
    "system",
    "interop.importing": "checkpoints config errors interop.dictionary interop.marian runs "
    "settings subwords system text",
    "translation": "batching checkpoints config decoding errors glossary interop.export markup "
    "model runs subwords system text translation.types",
    "recipes": "config datasets errors presets settings system text",
    "workflows": "config corpus errors evaluation presets recipes runs settings system text "
    "training translation",
    "parsing": "config corpus decoding errors presets runs settings subwords system text training "
    "translation translation.types",
    "cleaning": "errors pages system text translation",
    "inspection": "batching errors model pages runs subwords system translation translation.types",
    "serving": "config documents errors glossary inspection markup pages runs system text "
    "translation translation.types",
    "bench": "batching checkpoints config corpus errors evaluation interop.export model "
    "model.positions presets runs subwords system text training translation",
    "experiments": "batching bench checkpoints config corpus datasets errors evaluation inspection "
    "model pages parsing presets recipes runs settings subwords system text training translation "
    "workflows",
}
UNRESTRICTED = {"", "cli", "__main__", "interop"}  # "": transduce itself; interop is only a name

WITHOUT_TORCH = (
    *("system", "text", "subwords", "datasets", "corpus", "runs", "recipes", "translation"),
    *("documents", "glossary", "interop.converting", "markup", "pages"),
)
HEAVY = {"torch", "numpy", "tokenizers", "safetensors", "sacrebleu"}
WEB = {
    *("fastapi", "starlette", "pydantic", "pydantic_core"),
    *("uvicorn", "h11", "prometheus_client"),
}
OPTIONAL = {
    *(
        "ctranslate2",
        "lxml",
        "markdown_it",
        "matplotlib",
        "mtdata",
        "py3langid",
        "sacremoses",
        "sentencepiece",
        "sentencex",
    ),
    *("tensorboard", "transformers", "triton", "yaml", "zstandard", *WEB),
    *("comet", "mlflow", "wandb"),
}
# Modules that need an optional library are optional themselves: only each other may import them at
# module level. Some modules of the service work without the web libraries.
NEEDS_TRITON = "transduce.model.ops.triton."
NEEDS_WEB = "transduce.serving."
NEEDS_MARKDOWN = "transduce.documents.markdown"
WITHOUT_WEB = {"transduce.serving.limits", "transduce.serving.batching"}

ROOT = Path(transduce.__file__).parent


def module_name(path: Path) -> str:
    """Return the full name of a module: transduce.cli.train."""
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def parse(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imports(tree: ast.AST, name: str) -> Iterator[tuple[str, int]]:
    """Yield the full name of everything that a module imports, and the line."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            parts = [*(parents if node.level else []), *([node.module] if node.module else [])]
            for alias in node.names:
                full = ".".join([*parts, alias.name])
                is_module = full in MODULES or parts == ["transduce"]
                yield full if is_module else ".".join(parts), node.lineno


def row(name: str) -> str:
    """Return the row of the table that applies to a module."""
    parts = name.split(".")[1:]
    candidates = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((key for key in candidates if key in TABLE), "".join(parts[:1]))


def executed_at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that importing a module executes, except those for type checkers."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            pending += statement.orelse
            continue
        yield statement
        for field in ("body", "orelse", "finalbody"):
            pending += getattr(statement, field, [])
        for handler in getattr(statement, "handlers", []):
            pending += handler.body


def optional_group(name: str) -> str:
    """Return the optional library, or group of libraries, that a module or library belongs to."""
    library = name.partition(".")[0]
    if library in WEB or (f"{name}.".startswith(NEEDS_WEB) and name not in WITHOUT_WEB):
        return "web" if name != NEEDS_WEB.rstrip(".") else ""
    if library == "triton" or name.startswith(NEEDS_TRITON):
        return "triton"
    if name.startswith(NEEDS_MARKDOWN):
        return "markdown_it"
    return library if library in OPTIONAL else ""


def test_the_table_covers_every_package_and_has_no_cycle() -> None:
    assert {row(name) for name in MODULES} - UNRESTRICTED == set(TABLE)
    below: set[str] = set()
    for package, allowed in TABLE.items():
        assert set(allowed.split()) <= below, package
        below.add(package)


def test_the_diagram_of_the_documentation_agrees_with_the_table() -> None:
    """docs/architecture.md: imports go to lower rows, or to the right within a row."""
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = page.partition("```text\n")[2].partition("```")[0]
    packages = {row(f"transduce.{name}").partition(".")[0] for name in TABLE} | {"cli"}
    order = [word for line in diagram.splitlines() for word in left_column(line)]
    assert sorted(order) == sorted(packages)
    for name, allowed in TABLE.items():
        for imported in allowed.split():
            above, below = name.partition(".")[0], imported.partition(".")[0]
            is_exception = imported == "translation.types" or above == below
            assert is_exception or order.index(above) < order.index(below), (name, imported)


def left_column(line: str) -> list[str]:
    """Return the packages of a line of the diagram, without the description on the right."""
    return line[:48].split()


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_its_package_may(name: str) -> None:
    if row(name) in UNRESTRICTED:
        return
    allowed = {row(name), "__version__", *TABLE[row(name)].split()}
    for imported, line in imports(parse(name), name):
        if imported.partition(".")[0] == "transduce":
            assert row(imported) in allowed, f"line {line} of {name} imports {imported}"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_finds_only_files_of_its_own_folder(name: str) -> None:
    """Files of another package are reached by importing it: `transduce.pages.FOLDER`."""
    source = ast.unparse(parse(name)) + "\n"
    allowed = ("Path(__file__).parent /", "Path(__file__).with_name(", "= Path(__file__).parent\n")
    assert source.count("__file__") == sum(source.count(form) for form in allowed)
    assert "__file__" not in source or "'.." not in source
    assert source.count("resources.files(") == source.count("resources.files(__package__)")


@pytest.mark.parametrize("name", MODULES)
def test_optional_libraries_are_imported_late(name: str) -> None:
    for statement in executed_at_import(parse(name)):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for imported, line in imports(ast.Module([statement], []), name):
                allowed = {"", optional_group(name)}
                assert optional_group(imported) in allowed, f"line {line} of {name}: {imported}"


def test_training_does_not_need_triton() -> None:
    imported = libraries_after(
        "import sys; sys.modules['triton'] = None\n"
        "import transduce.training.train\n"
        "assert not transduce.model.ops.kernels.INSTALLED\n"
        "sys.modules.pop('triton')\n"
    )
    assert "torch" in imported
    assert "triton" not in imported


def test_packages_without_torch_do_not_import_it() -> None:
    names = [
        name
        for name in MODULES
        if any(f"{name}.".startswith(f"transduce.{package}.") for package in WITHOUT_TORCH)
        and (row(name) != "translation" or name == "transduce.translation")
    ]
    imported = libraries_after("\n".join(f"import {name}" for name in names))
    assert {"transduce", "numpy", "tokenizers"} <= imported
    assert "torch" not in imported


def test_importing_transduce_imports_nothing_heavy() -> None:
    assert not HEAVY & libraries_after("import transduce; dir(transduce); transduce.BadInput")


@pytest.mark.parametrize(
    "command",
    [
        *("", "train", "sweep", "distill", "translate", "serve", "score", "info", "plot", "bench"),
        *("settings", "demo", "watch", "export", "import", "convert", "look", "recipes"),
        *(
            "data list",
            "data get",
            "data terms",
            "data check",
            "paper table1",
            "paper figures",
            "paper scaling",
        ),
        *("paper positions", "paper smoothing", "paper training", "paper memory"),
    ],
)
def test_help_imports_nothing_heavy(command: str) -> None:
    argv = ["transduce", *command.split(), "--help"]
    imported = libraries_after(
        f"import sys; sys.argv = {argv}\n"
        "from transduce.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
    )
    assert not HEAVY & imported


def test_the_public_names_exist_and_misspelled_ones_do_not() -> None:
    assert transduce.__all__ == sorted(transduce.__all__)
    for name in transduce.__all__:
        public = getattr(transduce, name)
        assert public.__name__ == name
        assert getattr(importlib.import_module(public.__module__), name) is public
        assert name in dir(transduce)
    with pytest.raises(AttributeError, match="has no attribute 'Trasformer'"):
        transduce.Trasformer  # noqa: B018


def test_every_error_class_is_public() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.TransduceError)
    }
    assert classes <= set(transduce.__all__)


def test_no_module_has_the_name_of_a_public_function() -> None:
    """Importing such a submodule would replace the function in the package."""
    assert not set(transduce.__all__) & {path.stem for path in ROOT.iterdir()}
