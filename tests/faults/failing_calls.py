"""Count the file operations of this process in a folder, and make one of them fail."""

import builtins
import contextlib
import errno
import io
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self
from unittest import mock

from safetensors import SafetensorError

from transduce.checkpoints import checkpoint

OPEN, MKDIR, RENAME = "open", "mkdir", "rename"
WRITE, SAVE, SYNC, CLOSE = "write", "save", "fsync", "close"
UNLINK, RMDIR, CHMOD = "unlink", "rmdir", "chmod"
NAMED = {OPEN, MKDIR, RENAME, UNLINK, RMDIR, CHMOD}  # errors of these calls name the file
SPACE = frozenset({OPEN, MKDIR, WRITE, SAVE, SYNC, CLOSE, RENAME})
ANY = SPACE | {UNLINK, RMDIR, CHMOD}


class Call(NamedTuple):
    """A call that changes something in the folder."""

    kind: str
    path: str  # within the folder


@dataclass(frozen=True)
class Fault:
    """How a call fails, and later calls of the same kinds if the fault is lasting."""

    name: str
    kinds: frozenset[str]
    number: int = 0
    lasting: bool = False
    removes: Literal["", "file", "folder"] = ""


FAULTS = [
    Fault(f"{name}{' from then on' if lasting else ''}", kinds, number, lasting)
    for name, number, kinds in (
        ("no space left", errno.ENOSPC, SPACE),
        ("quota used up", errno.EDQUOT, SPACE),
        ("input/output error", errno.EIO, ANY),
        ("read-only", errno.EROFS, frozenset({OPEN, MKDIR, RENAME, UNLINK, RMDIR, CHMOD, SAVE})),
        ("permission denied", errno.EACCES, frozenset({OPEN, MKDIR, RENAME})),
        ("name too long", errno.ENAMETOOLONG, frozenset({OPEN, MKDIR})),
    )
    for lasting in (False, True)
] + [
    Fault("file removed", ANY, removes="file"),
    Fault("folder removed", ANY, removes="folder"),
]


class Disk:
    """A context in which calls on a folder's files are counted; the `at`-th meets a fault.

    Python's own functions are replaced, down to the raw writes below buffers. For the safetensors
    library, which writes in Rust, the file is truncated and its error is raised.
    """

    def __init__(self, folder: Path, at: int = -1, fault: Fault | None = None) -> None:
        self.folder, self.at, self.fault = folder.resolve(), at, fault
        self.calls: list[Call] = []
        self.existing: set[str] = set()  # the complete checkpoints at the time of the fault
        self._stack = contextlib.ExitStack()
        self._passive = False

    def __enter__(self) -> Self:
        replaced: list[tuple[Any, str, Callable[..., Any]]] = [
            (io, "open", self._open),
            (builtins, "open", self._open),
            (os, "fsync", self._fsync),
            *((os, name, self._renaming(name)) for name in ("replace", "rename")),
            *(
                (os, name, self._changing(name, kind, there=there))
                for name, kind, there in (
                    ("mkdir", MKDIR, False),
                    ("unlink", UNLINK, True),
                    ("remove", UNLINK, True),
                    ("rmdir", RMDIR, True),
                    ("chmod", CHMOD, True),
                )
            ),
        ]
        self._real_open = io.open
        self._real_fsync = os.fsync
        replaced.append((checkpoint, "save_file", self._saving(vars(checkpoint)["save_file"])))
        for owner, name, replacement in replaced:
            self._stack.enter_context(mock.patch.object(owner, name, replacement))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def met(self) -> Call | None:
        """The call that met the fault, if any."""
        return self.calls[self.at] if 0 <= self.at < len(self.calls) else None

    def meet(self, kind: str, path: str) -> None:
        """Count a call on a file of the folder, and raise the fault if it is due."""
        if self._passive or not self._holds(path):
            return
        number, fault = len(self.calls), self.fault
        self.calls.append(Call(kind, os.path.relpath(path, self.folder)))
        if fault is None or number < self.at:
            return
        if number == self.at:
            self.existing = set(whole_checkpoints(self.folder))
            if fault.removes:
                self._remove(path, fault.removes)
                return
        elif not fault.lasting or kind not in fault.kinds:
            return
        names = (path,) if kind in NAMED else ()
        raise OSError(fault.number, os.strerror(fault.number), *names)

    def _holds(self, path: str) -> bool:
        return Path(os.path.abspath(path)).is_relative_to(self.folder)  # noqa: PTH100

    def _remove(self, path: str, what: str) -> None:
        self._passive = True
        try:
            if what == "folder":
                for child in self.folder.iterdir():
                    if child.is_dir():
                        shutil.rmtree(child, ignore_errors=True)
            elif Path(path).is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                Path(path).unlink(missing_ok=True)
        finally:
            self._passive = False

    def _open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        plain = isinstance(file, int) or not set(mode) & set("wax+") or opener is not None
        if self._passive or plain or not self._holds(os.fspath(file)):
            return self._real_open(
                file, mode, buffering, encoding, errors, newline, closefd, opener
            )
        self.meet(OPEN, os.fspath(file))
        raw = _Raw(self, os.fspath(file), mode.replace("b", "").replace("t", ""))
        buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return buffer
        return io.TextIOWrapper(buffer, encoding, errors, newline)

    def _fsync(self, descriptor: int) -> None:
        self.meet(SYNC, _path_of(descriptor).removesuffix(" (deleted)"))
        self._real_fsync(descriptor)

    def _renaming(self, name: str) -> Callable[..., None]:
        real = getattr(os, name)

        def replacement(source: Any, target: Any, **named: Any) -> None:
            self.meet(RENAME, os.fspath(source))
            real(source, target, **named)

        return replacement

    def _changing(self, name: str, kind: str, *, there: bool) -> Callable[..., None]:
        real = getattr(os, name)

        def replacement(path: Any, *args: Any, dir_fd: int | None = None, **named: Any) -> None:
            where = os.fspath(path)
            if dir_fd is not None:
                where = str(Path(_path_of(dir_fd), where))
            if os.path.lexists(where) == there:  # otherwise it changes nothing
                self.meet(kind, where)
            if dir_fd is not None:
                named["dir_fd"] = dir_fd
            real(path, *args, **named)

        return replacement

    def _saving(self, real: Callable[..., None]) -> Callable[..., None]:
        def replacement(tensors: Any, path: Any, metadata: Any = None) -> None:
            real(tensors, path, metadata=metadata)
            try:
                self.meet(SAVE, os.fspath(path))
            except OSError as error:
                os.truncate(path, Path(path).stat().st_size // 2)
                raise SafetensorError(
                    f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
                ) from None

        return replacement


class _Raw(io.FileIO):
    """An unbuffered file: a write that fails has written half of its data."""

    def __init__(self, disk: Disk, path: str, mode: str) -> None:
        super().__init__(path, mode)
        self.disk, self.path = disk, path

    def write(self, data: Any) -> int:
        try:
            self.disk.meet(WRITE, self.path)
        except OSError:
            super().write(bytes(data)[: len(data) // 2])
            raise
        return super().write(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.disk.meet(CLOSE, self.path)


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def whole_checkpoints(folder: Path) -> list[str]:
    """Return the checkpoints of all runs in a folder, as paths within it."""
    return [str(path.relative_to(folder)) for path in folder.glob("**/checkpoints/step-*")]
