"""What README and docs say works as written."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import CommandLine, tiny_pairs, write_pairs

ROOT = Path(__file__).parents[1]
pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries


def blocks(path: Path, heading: str, language: str) -> list[str]:
    """Return the blocks of code under a heading."""
    text = path.read_text(encoding="utf-8")
    section = re.split(r"^## ", text.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


def commands(path: Path, heading: str) -> list[list[str]]:
    """Return the commands of a section that are ours, without comments and without shell."""
    found = []
    for block in blocks(path, heading, "console"):
        for line in block.splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if "transduce" in words:
                words = words[words.index("transduce") + 1 :]
                found.append(words[: words.index(">")] if ">" in words else words)
    return found


@pytest.fixture
def here(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the names of the text are real."""
    for name in ("en-de", "seed-2"):
        shutil.copytree(tiny_run, tmp_path / "runs" / name)
    for stem in ("train", "val", "test", "law", "begin", "book"):
        write_pairs(tmp_path, stem, tiny_pairs(300 if stem in ("train", "law") else 3))
    (tmp_path / "begin.de").write_text("der\nder\nder\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


QUICK = {
    "distill": ["--steps", "2", "--set", "vocabulary=320", "--set", "batch_tokens=400"],
    "train": ["--steps", "2", "--set", "batch_tokens=400", "--device", "cpu"],
    "bench": ["--rounds", "1", "--single", "1", "--peer", "none", "--engine", "torch"],
}


def run_all(found: list[list[str]], cli: CommandLine) -> list[str]:
    """Run commands, all of which must work; return what each wrote."""
    written = []
    for words in found:
        result = cli(*words, *QUICK.get(words[0], []), input="the dog sees a man.\n")
        assert result.status == 0, f"{words}: {result.stderr}"
        written.append(result.stdout)
    return written


def test_the_commands_of_the_readme_work(here: Path, cli: CommandLine) -> None:
    found = commands(ROOT / "README.md", "Put it to work")
    assert len(found) >= 8
    run_all(found, cli)


@pytest.mark.parametrize("heading", ["Files, pipes, programs", "Faster: students"])
def test_the_commands_of_the_page_on_deployment_work(
    here: Path, cli: CommandLine, heading: str
) -> None:
    found = commands(ROOT / "docs" / "deployment.md", heading)
    assert found
    run_all(found, cli)


def test_exports_load_as_the_page_on_deployment_says(
    here: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "deployment.md"
    run_all(commands(page, "To other libraries"), cli)
    for code in blocks(page, "To other libraries", "python"):
        exec(compile(code, "deployment.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_what_was_exported_comes_back_as_the_page_on_deployment_says(
    here: Path, cli: CommandLine
) -> None:
    run_all([["export", "runs/en-de", "opus-mt-en-de", "--to", "huggingface"]], cli)
    found = commands(ROOT / "docs" / "deployment.md", "From other libraries")
    written = dict(zip([words[0] for words in found], run_all(found, cli), strict=True))
    assert len(written["translate"].splitlines()) == 3
    assert (here / "runs" / "law" / "model.safetensors").exists()


def test_the_pictures_of_the_page_on_looking_inside_can_be_drawn(
    here: Path, learnt_run: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    for name in ("en-de", "seed-2"):
        shutil.rmtree(here / "runs" / name)
        shutil.copytree(learnt_run, here / "runs" / name)
    page = ROOT / "docs" / "looking-inside.md"
    found = commands(page, "Pictures")
    run_all(found, cli)
    (code,) = blocks(page, "Pictures", "python")
    exec(compile(code, "looking-inside.md", "exec"), {})
    wanted = {words[words.index("--out") + 1] for words in found if "--out" in words}
    assert len(wanted) == 6
    for name in (*wanted, "two-heads.pdf", "curves.svg"):
        assert (here / name).stat().st_size > 1000, name
    assert (here / "heads.html").read_text(encoding="utf-8").startswith("<!doctype html>")
