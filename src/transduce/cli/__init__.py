"""The command line: one file a command, each thin.

Output for people goes to stderr, results to stdout. Exit status 0, 1 (a clear error), 2 (usage),
130 (interrupted, after saving). Commands import late, so that --help answers at once.
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
    completion,
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
    streams,
    train,
    translate,
    watch,
)
from transduce.cli.options import check_values
from transduce.errors import Interrupted, TransduceError, is_out_of_memory, printable
from transduce.system.files import WINDOWS
from transduce.system.progress import WithheldStderr

app = typer.Typer(
    name="transduce",
    help="The Transformer of “Attention Is All You Need”: two text files in, a translator out.",
    epilog="Begin with: transduce demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
COMMANDS = (
    *(demo, train, distill, translate, serve, parse, score, average),
    *(settings, info, look, plot, watch, export, import_, convert),
)
for module in COMMANDS:
    name = module.__name__.rpartition(".")[2]
    app.command(name.rstrip("_"), epilog=module.EXAMPLES)(getattr(module, name))
app.add_typer(recipes.app, name="recipes")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(paper.app, name="paper")
completion.attach(app)
check_values(app)

UNDER_TORCHRUN = ("train", "distill", "demo", "paper")  # commands that train
NEED_NONE = {"demo", "settings"}  # commands that do something when given nothing
NEED_ARGUMENTS = {one.__name__.rpartition(".")[2].rstrip("_") for one in COMMANDS} - NEED_NONE
SECONDS_TO_SPEAK = 10  # for the first of several processes
FULL = "no space is left to write{where}: free some and run the same command again"
FORBIDDEN = "no permission to use{where}: change its permissions or choose another place"
IN_THE_WAY = "{where} is in the way: it is a file where a folder is needed"
IN_WORDS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), FORBIDDEN),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), IN_THE_WAY),
    errno.EISDIR: "{where} is in the way: it is a folder where a file is needed",
    errno.ENOENT: "there is no{where}",
    errno.EBADF: "standard input or output is closed: give it a file, or /dev/null",
    errno.EIO: "the disk failed at{where}: see to it and run the same command again",
    errno.EFBIG: "{where} may not grow further: raise the limit (ulimit -f) and run the same "
    "command again",
    errno.ENAMETOOLONG: "the name{where} is too long for this disk: choose a shorter one",
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"transduce {__version__}")
        raise typer.Exit


def interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt work by an exception; but end at once where modules are being imported.

    Libraries take an exception there for a module that is missing, and go on without it.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            if WINDOWS:  # which knows no signals between processes
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
    """Read what stands before the command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see __main__
        signal.signal(signal.SIGINT, interrupt)


def main() -> None:
    """Run the command line, and turn errors into one sentence and an exit status."""
    streams.secure()
    if sys.platform == "darwin":  # what Apple's GPUs have no kernel for, the processor does
        os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    if _follows_another_process():
        _run_silently()
    else:
        _run()


def _follows_another_process() -> bool:
    """Tell whether torchrun runs this command, and this is not the first process of the machine.

    Other commands do not work together: each of their processes does all of it and says so.
    """
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if "LOCAL_RANK" not in os.environ or command not in UNDER_TORCHRUN:
        return False
    from transduce.system.processes import torchrun_number, world_size

    try:
        return world_size() > 1 and torchrun_number("LOCAL_RANK", 0) > 0
    except TransduceError:
        return False  # the command refuses it


def _run_silently() -> None:
    """Run a process for which the first one speaks.

    If all of them fail before they have met, for example because of a mistyped setting, the first
    says why and torchrun ends the others. A process that is not ended has a reason of its own.
    """
    sys.stdout = open(os.devnull, "w", encoding="utf-8", newline="\n")  # noqa: PTH123, SIM115
    sys.stderr = unsaid = WithheldStderr()
    try:
        _run()
    except BaseException as end:
        ended_well = isinstance(end, SystemExit) and not end.code
        if sys.stderr is unsaid and not ended_well:  # `processes.together` gives back the real one
            time.sleep(SECONDS_TO_SPEAK)
            sys.stderr = sys.__stderr__
            print(unsaid.getvalue(), end="", file=sys.stderr)  # noqa: T201
        raise


def _run() -> None:
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]  # wherever it stands
    try:
        try:
            if len(sys.argv) == 2 and sys.argv[1] in NEED_ARGUMENTS:
                _help(sys.argv[1])
            app()
        finally:
            sys.stdout.flush()  # what cannot be written is to be said here, not by Python's end
    except Interrupted as error:
        _end(str(error), 130, debug=debug)
    except TransduceError as error:
        _end(f"error: {error}", 1, debug=debug)
    except BrokenPipeError:  # the reader of our output has gone, as in `| head`
        _forget_output()
        sys.exit(1)
    except OSError as error:
        _forget_output()
        _end(f"error: {_in_words(error)}", 1, debug=debug)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise  # a defect of ours: its traceback is wanted
        _end(
            "error: out of memory: try smaller batches (batch_tokens, --batch) or a smaller preset",
            1,
            debug=debug,
        )


def _help(command: str) -> None:
    """Show what a command needs that was given nothing, as a usage error: stdout stays empty."""
    with contextlib.redirect_stdout(sys.stderr):
        app([command, "--help"], standalone_mode=False)
    sys.exit(2)


def _forget_output() -> None:
    """Drop what cannot be written to stdout, or Python would try it once more as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(message: str, status: int, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    print(printable(message), file=sys.stderr)  # noqa: T201
    sys.exit(status)


def _in_words(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    words = IN_WORDS.get(error.errno or 0)
    if words is None:
        return f"{error.strerror or error}{where and ':' + where}"
    return words.format(where=where).strip()
