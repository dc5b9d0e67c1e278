"""`transduce demo`."""

EXAMPLES = ""


def demo() -> None:
    """Train on the corpus that comes along."""
