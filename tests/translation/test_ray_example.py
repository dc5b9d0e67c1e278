"""examples/bulk/translate_with_ray.py writes what `transduce translate` writes."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CommandLine, environment

pytest.importorskip("ray", reason="the ray extra is not installed: pip install 'transduce[ray]'")

SCRIPT = Path(__file__).parents[2] / "examples" / "bulk" / "translate_with_ray.py"
LINES = ("the dog sees a man.", "one bird! a fish.", "", "a fish", " two  trees \r")


def test_two_workers_write_the_lines_of_translate_in_order(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    source, out = tmp_path / "text.en", tmp_path / "out.de"
    source.write_text("".join(f"{line} {n}\n" for n in range(10) for line in LINES), "utf-8")
    command = [sys.executable, *map(str, (SCRIPT, tiny_run, source, out))]
    command += ["--workers", "2", "--batch", "7"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        # Two workers fit even on a machine with one core.
        env=environment() | {"RAY_OVERRIDE_RESOURCES": '{"CPU": 3}'},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    whole = cli("translate", tiny_run, source).stdout
    assert out.read_text(encoding="utf-8") == whole
    assert len(whole.splitlines()) == 50
    assert {path.name for path in tmp_path.iterdir()} == {"text.en", "out.de"}
    again = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert again.returncode == 2
    assert f"{out} exists" in again.stderr
