"""Run code in a fresh Python process."""

import subprocess
import sys


def libraries_after(code: str) -> set[str]:
    """Return the top-level modules that a fresh Python has imported after running some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
