"""The wheel is complete: installed without the repository, it works."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import TINY, environment, options, tiny_pairs, write_pairs
from faulty_server import cut, running
from small_data_sets import iwslt14

import transduce
from transduce.bench.workers import LIBRARIES

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"dev", "docs", "fuzz"}
FOR_EXAMPLES = {"ray"}  # no module of the package imports it
# Distribution names that differ from library names, and extra requirements of a library.
DISTRIBUTIONS = {
    "CTranslate2": "ctranslate2",
    "PyYAML": "pyyaml",
    "mlflow": "mlflow-skinny",
    "prometheus_client": "prometheus-client",
}
IMPORTED = {"prometheus-client": "prometheus_client", "pyyaml": "yaml", "mlflow-skinny": "mlflow"}
NOT_NAMED = {"huggingface": {"protobuf"}, "web": {"httptools", "uvloop"}}


@dataclass(frozen=True)
class Installed:
    """A wheel in its own environment."""

    python: Path
    home: Path  # folder of the package
    folder: Path  # working folder of commands

    def __call__(self, *args: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, which must succeed."""
        program, *rest = map(str, args)
        inherited = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.python.with_name(program)), *rest],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=inherited | variables,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the installed build tools."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    build = ["build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", *build], cwd=ROOT, check=True, capture_output=True
    )
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel with the libraries of these tests, but without the repository."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "env", symlinks=os.name != "nt")
    programs = Path(sysconfig.get_path("scripts", "venv", {"base": str(folder / "env")}))
    python = programs / Path(sys.executable).name
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install, wheel], check=True)
    home = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "env")}))
    # A folder named in a .pth file is searched, but its own .pth files (editable installs) are not.
    libraries = sysconfig.get_path("purelib")
    (home / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8", newline="\n")
    return Installed(python, home / "transduce", folder)


def names_of(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = names_of(wheel)
    package = ROOT / "src" / "transduce"
    sources = {
        f"transduce/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources == {name for name in names if name.startswith("transduce/")}
    assert {name.partition("/")[0] for name in names - sources} == {
        f"transduce-{transduce.__version__}.dist-info"
    }
    assert "transduce/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_package_comes_from_the_wheel(installed: Installed) -> None:
    path = installed("python", "-c", "import transduce; print(transduce.__file__)").stdout.strip()
    assert Path(path) == installed.home / "__init__.py"
    assert installed("transduce", "--version").stdout == f"transduce {transduce.__version__}\n"
    assert installed("python", "-m", "transduce", "--version").stdout.startswith("transduce ")
    code = "from importlib.metadata import version; print(version('transduce'))"
    assert installed("python", "-c", code).stdout.strip() == transduce.__version__


def test_the_demo_runs_from_the_wheel(installed: Installed) -> None:
    shown = installed("transduce", "demo", "--time", "1s", "--pairs", "1000", "--test", "8")
    assert "on 8 unseen sentences:" in shown.stdout
    assert (installed.folder / "runs" / "demo" / "model.safetensors").exists()


def test_training_translation_and_scores_run_from_the_wheel(installed: Installed) -> None:
    write_pairs(installed.folder, "train", tiny_pairs(200, seed=7))
    settings = options(TINY | {"steps": "2", "validate_bleu": "0"})
    installed("transduce", "train", "train.en", "train.de", "--out", "runs/en-de", *settings)
    (installed.folder / "test.en").write_text("a dog sees the man.\n\n", encoding="utf-8")
    run = ("translate", "runs/en-de", "test.en", "--device", "cpu", "--beam", "1")
    translated = installed("transduce", *run).stdout
    assert translated.count("\n") == 2
    (installed.folder / "out.de").write_text(translated, encoding="utf-8")
    assert "BLEU" in installed("transduce", "score", "out.de", "out.de").stdout


@pytest.mark.long
def test_a_recipe_downloads_and_trains_from_the_wheel(
    installed: Installed,
) -> None:
    pytest.importorskip("sacremoses")
    english, german = zip(*tiny_pairs(200, seed=3), strict=True)
    archive = iwslt14(list(english), list(german))
    shape = TINY | {"steps": "2", "max_len": "30", "validate_bleu": "0"}
    with running() as server:
        server.serve("iwslt14-de-en.tgz", archive, cut(len(archive) // 2))
        got = ("--recipe", "iwslt14-de-en", "--preset", "tiny", "--device", "cpu")
        command = ("transduce", "train", *got, "--out", "runs/talks", *options(shape))
        first = installed(*command, TRANSDUCE_MIRROR=server.address)
        assert len(server.requests) == 2  # the rest was fetched at once
    data = installed.folder / "data" / "iwslt14-de-en"
    assert len((data / "train.de").read_text(encoding="utf-8").splitlines()) > 150
    assert first.stdout.startswith("BLEU = ")
    assert (installed.folder / "runs" / "talks" / "evaluation.json").exists()
    assert installed(*command).stdout == first.stdout  # nothing is downloaded


def calls_of_missing_extra() -> Iterator[tuple[Path, str, str]]:
    """Yield the calls of MissingExtra: the module, the library, the extra."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "MissingExtra":
                if len(node.args) < 3:
                    continue
                library, extra = node.args[1:]
                assert isinstance(extra, ast.Constant), f"{path}:{node.lineno}"
                named = str(library.value) if isinstance(library, ast.Constant) else ""
                yield path, named, str(extra.value)
    for library_and_extra in LIBRARIES.values():
        yield ROOT, *library_and_extra


def listed(extra: str) -> set[str]:
    """Return the distributions that an extra installs, including nested extras."""
    found: set[str] = set()
    for requirement in EXTRAS[extra]:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name, requirement
        if name[0] == "transduce":
            inner = requirement[requirement.index("[") + 1 : requirement.index("]")].split(",")
            found |= {library for other in inner for library in listed(other.strip())}
        else:
            found.add(name[0])
    return found


def test_every_extra_that_an_error_names_installs_the_library() -> None:
    found = list(calls_of_missing_extra())
    assert len(found) > 8
    for path, library, extra in found:
        assert extra in EXTRAS, f"{path}: {extra}"
        if library:
            named = DISTRIBUTIONS.get(library, library)
            assert named in listed(extra), f"{path}: {extra} does not install {library}"


def test_every_extra_is_named_by_an_error_and_lists_nothing_more() -> None:
    named = {extra for _, _, extra in calls_of_missing_extra()}
    assert named - FOR_DEVELOPERS == EXTRAS.keys() - FOR_DEVELOPERS - FOR_EXAMPLES - {"all"}
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    for extra in named - FOR_DEVELOPERS:
        for library in listed(extra) - NOT_NAMED.get(extra, set()):
            imported = IMPORTED.get(library, library)
            assert re.search(rf"\b{imported}\b", text), f"{extra} lists {library}"


def test_the_extra_all_includes_everything_but_large_dictionaries_and_services() -> None:
    used = EXTRAS.keys() - FOR_DEVELOPERS - FOR_EXAMPLES - {"all", "ja", "ko", "wandb", "mlflow"}
    assert listed("all") == {library for extra in used for library in listed(extra)}
    assert listed("all") <= listed("dev")
