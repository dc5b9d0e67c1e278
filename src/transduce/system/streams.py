"""Standard streams that are closed at the start, or a terminal that closes later."""

import errno
import io
import os
import sys
from typing import Any, TextIO

from transduce.system.files import WINDOWS


def secure() -> None:
    """Open closed standard streams, and use UTF-8 and line feeds in every locale.

    A closed stream is opened to /dev/null. Otherwise the next opened file would get its descriptor,
    and messages would be written into it. Standard input and output are opened in the wrong mode,
    so that using them is an error and no data is lost silently. File names are printed unchanged.
    """
    flags_by_stream = {"stdin": os.O_WRONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for name, flags in flags_by_stream.items():
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            descriptor = os.open(os.devnull, flags)  # the lowest free one, usually the stream's own
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")
    if sys.stderr.isatty() and not WINDOWS:  # terminals on Windows take characters, not bytes
        sys.stderr = _ignore_hangup(sys.stderr)


def _ignore_hangup(terminal: TextIO) -> io.TextIOWrapper:
    """Return a stream that ignores errors after the terminal has closed, so that work continues."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Terminal(terminal.fileno(), "w", closefd=False)),
        encoding=terminal.encoding,
        errors=terminal.errors,
        line_buffering=True,
    )


class _Terminal(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: the terminal is closed
                raise
            return len(data)
