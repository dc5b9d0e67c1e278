"""A disk that is full, fails, is read-only or loses files, at every call that writes.

`fail_calls` makes each call of each command fail in turn, in this process. `fill` uses a real small
file system in memory that fills up at one page after the other, or, where mounting is not allowed,
a limit on the size of files.
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
# Files that differ between two equal runs: times, process ids, inodes.
UNEQUAL = {"metrics.jsonl", "state.json", ".lock", "manifest.json", "hashes.json"}
MADE_OF_CHECKPOINTS = {"model.safetensors", "config.json"}


@dataclass(frozen=True)
class Work:
    """A command, the folder that it works in, and copies of it before and after."""

    name: str
    arguments: Sequence[str]
    folder: Path  # it writes only in here
    before: Path  # a copy of the folder before the command
    to: Path | None = None  # the file for its standard output
    after: Path = field(init=False)  # a copy of the folder after the command

    def __post_init__(self) -> None:
        object.__setattr__(self, "after", self.before.with_name(f"{self.name}.after"))

    def reset(self) -> None:
        """Restore the folder to its state before the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.before, self.folder)

    def run(self) -> Result:
        """Run the command, with its cache in the folder."""
        with caching_in(self.folder / "cache"):
            return self._run()

    def _run(self) -> Result:
        if self.to is None:
            return command(*self.arguments)
        try:
            out = self.to.open("w", encoding="utf-8", newline="")
        except OSError as error:  # the shell would report it
            return Result(1, "", f"error: {error.strerror}: {self.to}")
        result = command(*self.arguments, out=out)
        try:
            out.close()
        except OSError:  # Python reports it when it exits
            return Result(result.status or 120, "", result.stderr)
        return result

    def rehearse(self) -> list[Call]:
        """Run the command without a fault; save the result and return its calls."""
        self.reset()
        with Disk(self.folder) as disk:
            result = self.run()
        if result.status:
            raise AssertionError(f"{self.name}: {result.stderr}")
        shutil.rmtree(self.after, ignore_errors=True)
        shutil.copytree(self.folder, self.after)
        return disk.calls


def find_damage(work: Work, existing: set[str]) -> str:
    """Return which file is damaged, or an empty string."""
    for name in existing:
        path = work.folder / name
        newer = [other for other in path.parent.glob("step-*") if other.name > path.name]
        if not path.is_dir() and len(newer) < int(KEPT["keep"]):
            return f"{name} was complete and is gone"
    for path in files_of(work.folder):
        within = path.relative_to(work.folder)
        ends = [end / within for end in (work.before, work.after)]
        if any(end.is_file() and filecmp.cmp(path, end, shallow=False) for end in ends):
            continue
        if path == work.to or path.suffix == ".jsonl" or path.name == ".lock":
            continue  # they grow; a truncated line is ignored when they are read
        try:
            if path.suffix == ".safetensors":
                load_arrays(path)
            elif path.suffix == ".json":
                read_json(path)
        except BadRun as error:
            return f"{within}: {error}"
        if path.suffix not in (".json", ".safetensors"):
            return f"{within} is neither the old nor the new file"
    return ""


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the files under their final names."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts[:-1])
        if path.is_file() and not hidden and not any(map(path.match, LEFTOVERS)):
            yield path


def find_difference(work: Work, without: str = "") -> str:
    """Return which file differs from the folder after the command, or an empty string.

    The file or folder `without` may be missing, because the fault removed it. The model is not
    compared if its checkpoints were removed.
    """
    found = {str(path.relative_to(work.folder)) for path in files_of(work.folder)}
    wanted = {str(path.relative_to(work.after)) for path in files_of(work.after)}
    wanted -= {name for name in wanted - found if name == without or name.startswith(f"{without}/")}
    extra = {name for name in found - wanted if "checkpoints/" in name}
    found -= extra  # an old one that could not be deleted; find_damage checks it
    if found ^ wanted:
        return f"{min(found ^ wanted)} is {'missing' if found < wanted else 'left over'}"
    unequal = UNEQUAL | (MADE_OF_CHECKPOINTS if without.endswith("/checkpoints") else set())
    for name in sorted(wanted):
        same = filecmp.cmp(work.folder / name, work.after / name, shallow=False)
        if Path(name).name not in unequal and not same:
            return f"{name} has other bytes"
    return ""


def find_unclear_message(result: Result, number: int, work: Work) -> str:
    """Return what is missing in the message of a failed command."""
    if wrong := complaint(result):
        return wrong
    sentence = result.stderr.splitlines()[-1]
    if str(work.folder) not in sentence and work.to is None:
        return f"it names no file: {sentence}"
    if number in ADVICE and ADVICE[number] not in sentence:
        return f"it does not say what to do: {sentence}"
    if ".transduce-" in sentence:
        return f"it names a temporary file: {sentence}"
    return ""


def check_outcome(
    work: Work, result: Result, number: int, existing: set[str], removed: str = ""
) -> tuple[str, str]:
    """Return the outcome of a fault and what is wrong with it; run the same command again.

    `removed` is the path that the fault removed, if any.
    """
    if result.status == 0:
        outcome = "continued without it"
    else:
        outcome = "reported in a sentence, resumed by the same command"
        if wrong := find_unclear_message(result, number, work):
            return outcome, wrong
    if wrong := find_damage(work, existing):
        return outcome, f"damaged: {wrong}"
    if result.status or find_difference(work):
        again = work.run()
        if again.status == 1 and "exists already" in again.stderr:  # it was already complete
            outcome = "reported in a sentence, and the result was complete"
        elif again.status and removed and not complaint(again):  # it cannot be created again
            return "reported in a sentence; its input was removed", ""
        elif again.status:
            return outcome, f"the same command does not resume: {again.stderr[-300:]}"
    if wrong := find_difference(work, removed):
        return outcome, f"the result differs: {wrong}"
    return outcome, ""


def inject_fault(work: Work, at: int, fault: Fault) -> tuple[str, str]:
    """Inject a fault into the `at`-th call of a command; return the outcome and what is wrong."""
    work.reset()
    with Disk(work.folder, at, fault) as disk:
        result = work.run()
    if not fault.removes:
        return check_outcome(work, result, fault.number, disk.existing)
    call = disk.met
    removed = call.path if call and fault.removes == "file" else "all"
    return check_outcome(work, result, fault.number, set(), removed)


def possible_faults(work: Work, calls: Sequence[Call], seed: int) -> list[tuple[int, Fault]]:
    """Return all faults that calls can meet: one for every call first, then a second, and so on."""
    ordered = []
    for at, call in enumerate(calls):
        if call.kind in (OPEN, CLOSE) and work.to and call.path == work.to.name:
            continue  # done by the shell
        faults = [fault for fault in FAULTS if call.kind in fault.kinds]
        random.Random(f"{seed} {at}").shuffle(faults)
        ordered += [(turn, at, fault) for turn, fault in enumerate(faults)]
    return [(at, fault) for _, at, fault in sorted(ordered, key=lambda item: item[:2])]


def works(folder: Path) -> dict[str, Work]:
    """Create the inputs of the commands in a folder, and return the commands by name."""
    shutil.rmtree(folder, ignore_errors=True)
    files = texts(folder / "texts")
    commands: dict[str, Work] = {}

    def add(
        name: str, arguments: Callable[[Path], list[str]], *given: tuple[str, Path], to: str = ""
    ) -> Work:
        place, before = folder / name, folder / f"{name}.before"
        before.mkdir()
        for as_name, path in given:
            shutil.copytree(path, before / as_name)
        work = Work(name, arguments(place), place, before, place / to if to else None)
        commands[name] = work
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
    commands["export-huggingface"].rehearse()
    theirs = commands["export-huggingface"].after / "model"
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
    return commands


def fail_calls(work: Work, count: int, seed: int, counts: Tally) -> None:
    """Make the calls of a command fail, at most `count` of them."""
    calls = work.rehearse()
    chosen = possible_faults(work, calls, seed)[:count]
    counts.figures[f"{work.name}: calls that write"] = len(calls)
    for at, fault in chosen:
        outcome, wrong = inject_fault(work, at, fault)
        if wrong:
            where = " ".join(calls[at])
            counts.fail(f"{work.name}, call {at} ({where}), {fault.name}: {wrong}")
        else:
            counts.hold(outcome)


def fill(count: int, folder: Path, counts: Tally) -> None:
    """Train on a disk that fills up, or with a limit on file sizes, at one size after the other."""
    commands = works(folder / "real")
    train = commands["train"]
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
            outcome, wrong = check_outcome(train, result, number, set())
            if wrong:
                counts.fail(f"a disk of {pages} pages: {wrong}")
            else:
                counts.hold(outcome)
        counts.figures["how"] = "a limit on files" if resize is None else "a file system in memory"


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[int], None] | None]:
    """Mount a file system in memory and yield a function that resizes it; None if not allowed."""
    folder.mkdir(parents=True, exist_ok=True)

    def mount(options: str) -> bool:
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    if shutil.which("mount") is None or not mount("size=64m"):
        yield None
        return
    try:
        yield (
            lambda pages: None if mount(f"remount,size={pages * PAGE}") else _fail_to_resize(folder)
        )
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _fail_to_resize(folder: Path) -> None:
    raise AssertionError(f"{folder} could not be resized")


@contextmanager
def files_limited(size: int) -> Iterator[None]:
    """Limit the size of files; Python ignores the signal SIGXFSZ."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Test every command; see the module docstring."""
    counts = [
        Tally("a failing call damages nothing, is reported, and the command can be resumed", seed),
        Tally("a full disk damages nothing, is reported, and the command can be resumed", seed),
    ]
    with threads_kept():
        commands = works(folder / "calls")
        calls = {name: len(work.rehearse()) for name, work in commands.items()}
        for name, work in commands.items():
            share = count * calls[name] // sum(calls.values())
            fail_calls(work, max(1, share), seed, counts[0])
        fill(max(1, count // 10), folder, counts[1])
    return counts
