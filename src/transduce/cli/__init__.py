"""The command line: one thin file per command, and shared modules.

- `demo`, `train`, `distill`, `translate`, `serve`, `parse`, `score`, `average`, `settings`, `info`,
  `look`, `plot`, `watch`, `export`, `import_`, `convert`: the command of that name
- `recipes`, `data`, `bench`, `paper/`: groups of commands
- `declaring`, `options`, `completion`: declaring commands, shared options, shell completion
- `tables`: tables and JSON
- `lines`, `outputs`, `look_tables`: input and output for `translate`; tables for `look`

Messages go to stderr, results to stdout. Exit status: 0, 1 (an error, in one sentence), 2 (usage
error), 130 (interrupted, after saving). Commands import late, so that --help is fast.
"""

import contextlib
import errno
import os
import signal
import sys
import time
from types import FrameType
from typing import Annotated

import typer

from transduce import __version__
from transduce.cli import (
    average,
    bench,
    convert,
    data,
    demo,
    distill,
    export,
    import_,
    info,
    look,
    paper,
    parse,
    plot,
    recipes,
    score,
    serve,
    settings,
    sweep,
    train,
    translate,
    watch,
)
from transduce.cli.declaring import add_commands
from transduce.errors import Interrupted, TransduceError, is_out_of_memory, printable
from transduce.system import streams
from transduce.system.files import WINDOWS
from transduce.system.progress import WithheldStderr

app = typer.Typer(
    name="transduce",
    help="The Transformer of “Attention Is All You Need”: two text files in, a translator out.",
    epilog="Start with: transduce demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
COMMANDS = (
    *(demo, train, sweep, distill, translate, serve, parse, score, average),
    *(settings, info, look, plot, watch, export, import_, convert),
)
add_commands(app, *COMMANDS)
app.add_typer(recipes.app, name="recipes")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(paper.app, name="paper")

UNDER_TORCHRUN = ("train", "distill", "demo", "paper")  # commands that train
NEED_NO_ARGUMENTS = {"demo", "settings"}
NEED_ARGUMENTS = {
    module.__name__.rpartition(".")[2].rstrip("_") for module in COMMANDS
} - NEED_NO_ARGUMENTS
SECONDS_FOR_FIRST_PROCESS = 10  # time for it to print the error and for torchrun to end the others
FULL = "no space is left to write{where}: free some and run the same command again"
FORBIDDEN = "no permission to use{where}: change its permissions or choose another place"
IN_THE_WAY = "{where} is in the way: it is a file where a folder is needed"
OS_ERRORS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), FORBIDDEN),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), IN_THE_WAY),
    errno.EISDIR: "{where} is in the way: it is a folder where a file is needed",
    errno.ENOENT: "there is no{where}",
    errno.EBADF: "standard input or output is closed: redirect it to a file or /dev/null",
    errno.EIO: "the disk failed at{where}: check it and run the same command again",
    errno.EFBIG: "{where} reached the limit on file sizes: raise it (ulimit -f) and run the same "
    "command again",
    errno.ENAMETOOLONG: "the name{where} is too long for this disk: choose a shorter one",
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"transduce {__version__}")
        raise typer.Exit


def interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C raises KeyboardInterrupt; during an import it ends the process.

    Some libraries treat an exception during an import as a missing module and continue.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            if WINDOWS:  # which has no signals between processes
                os._exit(130)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        frame = frame.f_back
    raise KeyboardInterrupt


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Handle the options that precede the command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see __main__
        signal.signal(signal.SIGINT, interrupt)


def main() -> None:
    """Run the command line; print errors as one sentence and exit with the right status."""
    streams.secure()
    if sys.platform == "darwin":  # use the CPU for operations without an MPS kernel
        os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    if _is_silent_process():
        _run_silently()
    else:
        _run()


def _is_silent_process() -> bool:
    """Return whether torchrun started this process and a different process prints the output.

    Commands that do not train are not distributed: each of their processes prints.
    """
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if "LOCAL_RANK" not in os.environ or command not in UNDER_TORCHRUN:
        return False
    from transduce.system.processes import torchrun_number, world_size

    try:
        return world_size() > 1 and torchrun_number("LOCAL_RANK", 0) > 0
    except TransduceError:
        return False  # the command reports the error


def _run_silently() -> None:
    """Run without output, because the first process prints it.

    If all processes fail before they are connected, for example because of an invalid setting, the
    first process prints the error and torchrun ends the others. A process that is still running
    after the wait has a different error and prints it.
    """
    sys.stdout = open(os.devnull, "w", encoding="utf-8", newline="\n")  # noqa: PTH123, SIM115
    sys.stderr = withheld = WithheldStderr()
    try:
        _run()
    except BaseException as end:
        ended_well = isinstance(end, SystemExit) and not end.code
        if sys.stderr is withheld and not ended_well:  # connected processes have the real stderr
            time.sleep(SECONDS_FOR_FIRST_PROCESS)
            sys.stderr = sys.__stderr__
            print(withheld.getvalue(), end="", file=sys.stderr)  # noqa: T201
        raise


def _run() -> None:
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]  # at any position
    try:
        try:
            if len(sys.argv) == 2 and sys.argv[1] in NEED_ARGUMENTS:
                _help(sys.argv[1])
            app()
        finally:
            sys.stdout.flush()  # report write errors here, not when Python exits
    except Interrupted as error:
        _exit(str(error), 130, debug=debug)
    except TransduceError as error:
        _exit(f"error: {error}", 1, debug=debug)
    except BrokenPipeError:  # the reader of our output has exited, as in `| head`
        _discard_output()
        sys.exit(1)
    except OSError as error:
        _discard_output()
        _exit(f"error: {_describe(error)}", 1, debug=debug)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise  # a bug in transduce: show the traceback
        _exit(
            "error: out of memory: try smaller batches (batch_tokens, --batch) or a smaller preset",
            1,
            debug=debug,
        )


def _help(command: str) -> None:
    """Print the help of a command whose arguments are missing to stderr; exit with status 2."""
    with contextlib.redirect_stdout(sys.stderr):
        app([command, "--help"], standalone_mode=False)
    sys.exit(2)


def _discard_output() -> None:
    """Discard output that cannot be written; otherwise Python would try again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(message: str, status: int, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    print(printable(message), file=sys.stderr)  # noqa: T201
    sys.exit(status)


def _describe(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    message = OS_ERRORS.get(error.errno or 0)
    if message is None:
        return f"{error.strerror or error}{where and ':' + where}"
    return message.format(where=where).strip()
