"""`python -m transduce`: the same as `transduce`.

Ctrl-C during start-up exits cleanly: until a command begins, the signal ends the process without a
traceback, because there is nothing to save.
"""

import signal


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from transduce.cli import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
