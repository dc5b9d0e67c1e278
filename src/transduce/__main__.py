"""`python -m transduce` is `transduce`.

Until a command begins, Ctrl-C ends the process at once, as it ends any other: there is nothing to
put away, and nobody wants to read between which two imports it was.
"""

import signal


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from transduce.cli import main as run

    run()


if __name__ == "__main__":
    main()
