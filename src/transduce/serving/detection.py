"""The language of a request's texts, among the languages of the models."""

import asyncio
import re
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from transduce.errors import MissingExtra
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem
from transduce.text.identification import (
    Guess,
    identify_among,
    is_available,
    same_language,
)

AUTO = "auto"
CHARACTERS = 2_000  # of a request that are read
CLEAR, MIN_LETTERS = 0.9, 20  # probability and length of a text that is clearly in a language
TAG = re.compile(r"<[^<>]*>")

_lock = threading.Lock()  # the library's model is loaded once


async def rank_languages(
    texts: Sequence[str], languages: Collection[str], *, html: bool = False
) -> list[Guess]:
    """Return the languages, the most probable first; none if the texts do not tell."""
    return await asyncio.to_thread(_rank, read_part(texts, html=html), languages)


def read_part(texts: Sequence[str], *, html: bool) -> str:
    """Return the beginning of the texts, of which the language is detected."""
    text = "\n".join(texts)[: 2 * CHARACTERS if html else CHARACTERS]
    text = text.encode("utf-8", "replace").decode()  # lone surrogates are refused later
    return TAG.sub(" ", text) if html else text


def _rank(text: str, languages: Collection[str]) -> list[Guess]:
    with _lock:
        return identify_among(text, languages)


async def detected_languages(
    texts: Sequence[str], models: Collection[ServedModel]
) -> list[dict[str, Any]]:
    """Return the probable languages as LibreTranslate does, with confidences up to 100."""
    try:
        guesses = await rank_languages(texts, languages_of(models))
    except MissingExtra as error:
        raise Problem(501, str(error)) from None
    likely = [guess for guess in guesses if guess is guesses[0] or guess.probability >= 0.01]
    sources = dict.fromkeys(source for model in models for source, _ in model.pairs)
    return [to_json(guess) for guess in likely] or [to_json(Guess(code, 0)) for code in sources][:1]


async def detect_source(
    texts: Sequence[str], languages: Collection[str], sources: Sequence[str], *, html: bool
) -> Guess:
    """Return the most probable of the sources, or another language if texts are clearly in it.

    The first source if the texts do not tell, or if it is the only one and the library is missing.
    """
    first = Guess(sources[0], 0.0)
    if not is_available():
        if {*sources} == {first.language}:
            return first
        needs = ("source = auto", "py3langid", "language", "give the source language")
        raise Problem(501, str(MissingExtra(*needs)))
    long = sum(map(str.isalpha, read_part(texts, html=html))) >= MIN_LETTERS
    for guess in await rank_languages(texts, languages, html=html):
        alike = [code for code in sources if same_language(code, guess.language)]
        if alike:
            source = guess.language if guess.language in alike else alike[0]
            return Guess(source, guess.probability)
        if long and guess.probability >= CLEAR:
            return guess
    return first


def to_json(guess: Guess) -> dict[str, Any]:
    """Return a guess as LibreTranslate does."""
    return {"confidence": round(100 * guess.probability, 1), "language": guess.language}


def languages_of(models: Iterable[ServedModel]) -> Collection[str]:
    """Return the languages that are translated from or to."""
    return dict.fromkeys(code for model in models for pair in model.pairs for code in pair)
