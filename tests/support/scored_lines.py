"""Translations and references for tests of scores."""

import random

HYPOTHESES = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."]


def noisy(lines: int) -> tuple[list[str], list[str]]:
    """Return translations in which about every fourth word is wrong, and their references."""
    draw = random.Random(1)
    words = ["der", "die", "das", "alte", "kleine", "Hund", "Katze", "sieht", "frisst", "heute"]
    references = [" ".join(draw.choices(words, k=draw.randint(4, 12))) for _ in range(lines)]
    hypotheses = [
        " ".join(word if draw.random() < 0.75 else draw.choice(words) for word in line.split())
        for line in references
    ]
    return hypotheses, references
