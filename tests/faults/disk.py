"""A disk that is full, fails, is read-only or loses files, at every call that writes.

`calls` lets each call of each command fail in turn, in this process. `fill` does it for real: a
small file system in memory where mounting is allowed, which fills up at one page after the other,
else a limit on the size of files, which the writers of all languages meet.
"""

import errno
import filecmp
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from conftest import Result, threads_kept

from faults.failing_calls import CLOSE, FAULTS, OPEN, Call, Disk, Fault
from faults.in_process import caching_in, command, complaint, texts, train_command
from faults.tally import Tally
from transduce.errors import BadRun
from transduce.runs.arrays import load_arrays
from transduce.system.files import read_json

COUNT = 800
PAGE = 4096
ADVICE = {
    errno.ENOSPC: "free some and run the same command again",
    errno.EDQUOT: "free some and run the same command again",
    errno.EIO: "run the same command again",
    errno.EFBIG: "run the same command again",
    errno.EROFS: "change its permissions or choose another place",
    errno.EACCES: "change its permissions or choose another place",
    errno.ENAMETOOLONG: "choose a shorter one",
}
KEPT = {"keep": "2", "average": "2"}
LEFTOVERS = (".transduce-*",)
# What differs between two equal runs: times, who came last, and the inodes of files.
UNEQUAL = {"metrics.jsonl", "state.json", ".lock", "manifest.json", "hashes.json"}
MADE_OF_CHECKPOINTS = {"model.safetensors", "config.json"}


@dataclass(frozen=True)
class Work:
    """A command, the folder that it works in, and how that looks before and after."""

    name: str
    arguments: Sequence[str]
    folder: Path  # all that it may write is in here
    before: Path  # a copy of the folder as the command finds it
    to: Path | None = None  # the file that what it prints goes to
    after: Path = field(init=False)  # a copy of the folder as the command leaves it

    def __post_init__(self) -> None:
        object.__setattr__(self, "after", self.before.with_name(f"{self.name}.after"))

    def reset(self) -> None:
        """Give the command the folder as it was."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.before, self.folder)

    def run(self) -> Result:
        """Run the command, with its cache in the folder too."""
        with caching_in(self.folder / "cache"):
            return self._run()

    def _run(self) -> Result:
        if self.to is None:
            return command(*self.arguments)
        try:
            out = self.to.open("w", encoding="utf-8", newline="")
        except OSError as error:  # the shell's to tell
            return Result(1, "", f"error: {error.strerror}: {self.to}")
        result = command(*self.arguments, out=out)
        try:
            out.close()
        except OSError:  # as Python itself does when it ends
            return Result(result.status or 120, "", result.stderr)
        return result

    def rehearse(self) -> list[Call]:
        """Run it with no fault; return what it called, and keep what came of it."""
        self.reset()
        with Disk(self.folder) as disk:
            result = self.run()
        if result.status:
            raise AssertionError(f"{self.name}: {result.stderr}")
        shutil.rmtree(self.after, ignore_errors=True)
        shutil.copytree(self.folder, self.after)
        return disk.calls


def harm(work: Work, there: set[str]) -> str:
    """Return what is harmed in a folder: nothing where all that has its name is whole."""
    for name in there:
        path = work.folder / name
        newer = [one for one in path.parent.glob("step-*") if one.name > path.name]
        if not path.is_dir() and len(newer) < int(KEPT["keep"]):
            return f"{name} was whole and is gone"
    for path in files_of(work.folder):
        within = path.relative_to(work.folder)
        ends = [end / within for end in (work.before, work.after)]
        if any(end.is_file() and filecmp.cmp(path, end, shallow=False) for end in ends):
            continue
        if path == work.to or path.suffix == ".jsonl" or path.name == ".lock":
            continue  # they grow, and what is cut short is left out when they are read
        try:
            if path.suffix == ".safetensors":
                load_arrays(path)
            elif path.suffix == ".json":
                read_json(path)
        except BadRun as error:
            return f"{within}: {error}"
        if path.suffix not in (".json", ".safetensors"):
            return f"{within} is neither as it was nor as it shall be"
    return ""


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the files that stand under their own names."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts[:-1])
        if path.is_file() and not hidden and not any(map(path.match, LEFTOVERS)):
            yield path


def unlike(work: Work, without: str = "") -> str:
    """Return what differs from how the command leaves its folder: nothing where all is equal.

    A file, or a folder with all in it, may be missing `without` being missed: somebody has removed
    it. Of checkpoints that are gone the model has no mean, and says so.
    """
    found = {str(path.relative_to(work.folder)) for path in files_of(work.folder)}
    wanted = {str(path.relative_to(work.after)) for path in files_of(work.after)}
    wanted -= {name for name in wanted - found if name == without or name.startswith(f"{without}/")}
    extra = {name for name in found - wanted if "checkpoints/" in name}
    found -= extra  # an old one that could not be deleted; it is whole, or it would be harm
    if found ^ wanted:
        return f"{min(found ^ wanted)} is {'missing' if found < wanted else 'left over'}"
    unequal = UNEQUAL | (MADE_OF_CHECKPOINTS if without.endswith("/checkpoints") else set())
    for name in sorted(wanted):
        same = filecmp.cmp(work.folder / name, work.after / name, shallow=False)
        if Path(name).name not in unequal and not same:
            return f"{name} has other bytes"
    return ""


def unclear(result: Result, number: int, work: Work) -> str:
    """Return what the sentence of a command that failed lacks."""
    if wrong := complaint(result):
        return wrong
    sentence = result.stderr.splitlines()[-1]
    if str(work.folder) not in sentence and work.to is None:
        return f"it names no file: {sentence}"
    if number in ADVICE and ADVICE[number] not in sentence:
        return f"it does not say what to do: {sentence}"
    if ".transduce-" in sentence:
        return f"it names a file that nobody knows: {sentence}"
    return ""


def judge(
    work: Work, result: Result, number: int, there: set[str], removed: str = ""
) -> tuple[str, str]:
    """Return what came of a fault, and what is wrong with that; then run the same command again.

    `removed` is what was removed underneath, if that was the fault.
    """
    if result.status == 0:
        outcome = "gone on without it"
    else:
        outcome = "told in a sentence, gone on by the same command"
        if wrong := unclear(result, number, work):
            return outcome, wrong
    if wrong := harm(work, there):
        return outcome, f"harmed: {wrong}"
    if result.status or unlike(work):
        again = work.run()
        if again.status == 1 and "exists already" in again.stderr:  # it was whole by then
            outcome = "told in a sentence, and all was there"
        elif again.status and removed and not complaint(again):  # it is not made anew
            return "told in a sentence; what it works on was removed", ""
        elif again.status:
            return outcome, f"the same command does not go on: {again.stderr[-300:]}"
    if wrong := unlike(work, removed):
        return outcome, f"not the same in the end: {wrong}"
    return outcome, ""


def strike(work: Work, at: int, fault: Fault) -> tuple[str, str]:
    """Let the `at`-th call of a command meet a fault; return what came of it, and what is wrong."""
    work.reset()
    with Disk(work.folder, at, fault) as disk:
        result = work.run()
    if not fault.removes:
        return judge(work, result, fault.number, disk.there)
    call = disk.met
    removed = call.path if call and fault.removes == "file" else "all"
    return judge(work, result, fault.number, set(), removed)


def fitting(work: Work, calls: Sequence[Call], seed: int) -> list[tuple[int, Fault]]:
    """Return all the faults that calls can meet, one of every call first, then another of each."""
    found = []
    for at, call in enumerate(calls):
        if call.kind in (OPEN, CLOSE) and work.to and call.path == work.to.name:
            continue  # those are the shell's
        own = [one for one in FAULTS if call.kind in one.kinds]
        random.Random(f"{seed} {at}").shuffle(own)
        found += [(turn, at, fault) for turn, fault in enumerate(own)]
    return [(at, fault) for _, at, fault in sorted(found, key=lambda one: one[:2])]


def works(folder: Path) -> dict[str, Work]:
    """Make what the commands need in a folder, and return them by name."""
    shutil.rmtree(folder, ignore_errors=True)
    files = texts(folder / "texts")
    made: dict[str, Work] = {}

    def add(
        name: str, arguments: Callable[[Path], list[str]], *given: tuple[str, Path], to: str = ""
    ) -> Work:
        place, before = folder / name, folder / f"{name}.before"
        before.mkdir()
        for as_name, path in given:
            shutil.copytree(path, before / as_name)
        work = Work(name, arguments(place), place, before, place / to if to else None)
        made[name] = work
        return work

    train = add("train", lambda place: train_command(files, place / "run", **KEPT))
    train.rehearse()
    run = train.after / "run"
    more = KEPT | {"steps": "8", "select": "best"}
    add("resume", lambda place: train_command(files, place / "run", **more), ("run", run))
    add("average", lambda place: ["average", str(place / "run"), "--last", "1"], ("run", run))
    for library in ("ctranslate2", "huggingface"):
        add(
            f"export-{library}",
            lambda place, to=library: [  # type: ignore[misc]
                *("export", str(run), str(place / "model"), "--to", to)
            ],
        )
    made["export-huggingface"].rehearse()
    theirs = made["export-huggingface"].after / "model"
    add("import", lambda place: ["import", str(theirs), "--out", str(place / "run")])
    add(
        "translate",
        lambda place: [
            *("translate", str(place / "run"), str(files[0]), "--engine", "ctranslate2"),
            *("--beam", "1"),
        ],
        ("run", run),
        to="out.txt",
    )
    return made


def called(work: Work, count: int, seed: int, counts: Tally) -> None:
    """Let the calls of a command fail, all of them or as many as are asked for."""
    calls = work.rehearse()
    chosen = fitting(work, calls, seed)[:count]
    counts.figures[f"{work.name}: calls that write"] = len(calls)
    for at, fault in chosen:
        outcome, wrong = strike(work, at, fault)
        if wrong:
            where = " ".join(calls[at])
            counts.fail(f"{work.name}, call {at} ({where}), {fault.name}: {wrong}")
        else:
            counts.hold(outcome)


def fill(count: int, folder: Path, counts: Tally) -> None:
    """Train where the disk fills up, or where files may not grow, at one size after the other."""
    made = works(folder / "real")
    train = made["train"]
    size = sum(-(-path.stat().st_size // PAGE) + 1 for path in train.after.rglob("*"))
    with small_disk(train.folder) as resize:
        for pages in range(1, size, max(1, size // count)):
            if resize is None:
                limit, number = pages * PAGE, errno.EFBIG
                train.reset()
                with files_limited(limit):
                    result = train.run()
            else:
                for path in train.folder.iterdir():
                    shutil.rmtree(path)
                number = errno.ENOSPC
                resize(pages)
                result = train.run()
                resize(2 * size + 100)
            outcome, wrong = judge(train, result, number, set())
            if wrong:
                counts.fail(f"a disk of {pages} pages: {wrong}")
            else:
                counts.hold(outcome)
        counts.figures["how"] = "a limit on files" if resize is None else "a file system in memory"


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[int], None] | None]:
    """Mount a file system in memory whose pages can be set; nothing where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)

    def mount(options: str) -> bool:
        asked = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    if shutil.which("mount") is None or not mount("size=64m"):
        yield None
        return
    try:
        yield lambda pages: None if mount(f"remount,size={pages * PAGE}") else _cannot(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _cannot(folder: Path) -> None:
    raise AssertionError(f"{folder} could not be given another size")


@contextmanager
def files_limited(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size; Python ignores the signal of that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Try every command; see the head of this file."""
    counts = [
        Tally("a call that fails harms nothing that is whole, is told, and is gone on from", seed),
        Tally(
            "a disk that fills up harms nothing that is whole, is told, and is gone on from", seed
        ),
    ]
    with threads_kept():
        made = works(folder / "called")
        calls = {name: len(work.rehearse()) for name, work in made.items()}
        for name, work in made.items():
            share = count * calls[name] // sum(calls.values())
            called(work, max(1, share), seed, counts[0])
        fill(max(1, count // 10), folder, counts[1])
    return counts
