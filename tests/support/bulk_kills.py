"""Kill a bulk translation before each of its file operations, and continue it.

    python bulk_kills.py FOLDER

Prints the number of kills. A model that repeats its input translates, so that no time passes.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transduce.cli import bulk
from transduce.cli.lines import Input
from transduce.system.files import OWN_NAME
from transduce.system.progress import Silent

CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod")
WRITING = os.O_WRONLY | os.O_RDWR
TEXT = "".join(f"line {number}\n" for number in range(1, 8))


class Repeater:
    """Stands for a `Translator`."""

    engine = SimpleNamespace(batch=1, name="none")
    config = SimpleNamespace(model=SimpleNamespace(max_len=100))

    def stream(self, block: list[str], *, first: int, **options: object) -> Iterator[Any]:
        """Repeat lines."""
        for number, text in enumerate(block, start=first):
            empty: dict[str, Any] = dict.fromkeys(("spans", "terms", "flags", "memory"), ())
            yield SimpleNamespace(text=f"{number} {text.upper()}", cut=False, **empty)


def translate(source: Path, out: Path) -> None:
    """Translate a file in blocks of two lines."""
    vars(bulk)["WINDOW"] = 2
    sources = [Input(str(source))]
    paths = bulk.check(sources, [out], bulk.Shard(), overwrite=False, nbest=None)
    translator: Any = Repeater()
    form: Any = lambda number, translation: [f"{number} {translation.text}"]  # noqa: E731
    identity = {"weights": "none"}
    bulk.translate_files(
        *(translator, sources, paths, bulk.Shard(), form, Silent(), identity),
        batch=None,
        split=True,
    )


def in_child(work: Callable[[], None], kill_before: int | None) -> bool:
    """Run `work` in a process that is killed before a file operation; return whether it was."""
    child = os.fork()
    if child == 0:
        done = 0

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal done
            if event in CHANGES or (event == "open" and arguments[2] & WRITING):
                done += 1
                if done - 1 == kill_before:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def main(folder: Path) -> None:
    """Kill before operation 0, 1, 2 and so on, until the work ends before it is killed."""
    source = folder / "text.en"
    source.write_text(TEXT, encoding="utf-8")
    kills = 0
    while True:
        out = folder / f"out-{kills}.de"
        if not in_child(lambda out=out: translate(source, out), kills):  # type: ignore[misc]
            break
        half = bulk.partial_folder(out) / bulk.OUTPUT
        if half.exists():  # as if it had been killed while it wrote
            with half.open("ab") as file:
                file.write(b"half a li")
        in_child(lambda out=out: translate(source, out), None)  # type: ignore[misc]
        in_child(lambda out=out: translate(source, out), None)  # type: ignore[misc]
        compare(out)
        kills += 1
    compare(out)
    print(kills)  # noqa: T201


def compare(out: Path) -> None:
    """Compare an output with the one that it should be; only our temporary folders may be left."""
    lines = [f"{n} {n - 1} {line.upper()}\n" for n, line in enumerate(TEXT.splitlines(), start=1)]
    assert out.read_text(encoding="utf-8") == "".join(lines), out
    assert not bulk.partial_folder(out).exists()
    names = {path.name for path in out.parent.iterdir() if not OWN_NAME.fullmatch(path.name)}
    assert names <= {"text.en", *(f"out-{number}.de" for number in range(1000))}, names


if __name__ == "__main__":
    main(Path(sys.argv[1]))
