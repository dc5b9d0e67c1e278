"""The language of a request's texts, among the languages of the models."""

import asyncio
import itertools
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import unescape
from typing import Any

from transduce.documents.html_tokens import tokens
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

_lock = threading.Lock()  # the library's model is loaded once


async def rank_languages(
    texts: Sequence[str], languages: Collection[str], *, html: bool = False
) -> tuple[list[Guess], int]:
    """Return the languages, the most probable first, and the number of letters that were read.

    There are no languages if the texts do not tell.
    """

    def rank() -> tuple[list[Guess], int]:
        text = read_part(texts, html=html)
        with _lock:
            return identify_among(text, languages), sum(map(str.isalpha, text))

    return await asyncio.to_thread(rank)


def read_part(texts: Sequence[str], *, html: bool) -> str:
    """Return the beginning of the texts, of which the language is detected."""
    parts = itertools.chain.from_iterable(map(_shown, texts)) if html else iter(texts)
    text, size = [], 0
    for part in parts:
        text.append(part[: CHARACTERS - size])
        size += len(text[-1])
        if size >= CHARACTERS:
            break
    # Lone surrogates are refused later.
    return "\n".join(text).encode("utf-8", "replace").decode()


def _shown(html: str) -> Iterator[str]:
    """Yield the texts of a page, without scripts and styles."""
    hidden = False
    for token in tokens(html):
        if token.kind == "text" and not hidden:
            yield unescape(html[token.start : token.end]).strip()
        hidden = token.kind == "start" and token.name in ("script", "style")


async def detected_languages(
    texts: Sequence[str], models: Collection[ServedModel]
) -> list[dict[str, Any]]:
    """Return the probable languages as LibreTranslate does, with confidences up to 100."""
    try:
        guesses, _ = await rank_languages(texts, languages_of(models))
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
    guesses, letters = await rank_languages(texts, languages, html=html)
    for guess in guesses:
        alike = [code for code in sources if same_language(code, guess.language)]
        if alike:
            source = guess.language if guess.language in alike else alike[0]
            return Guess(source, guess.probability)
        if letters >= MIN_LETTERS and guess.probability >= CLEAR:
            return guess
    return first


def to_json(guess: Guess) -> dict[str, Any]:
    """Return a guess as LibreTranslate does."""
    return {"confidence": round(100 * guess.probability, 1), "language": guess.language}


def languages_of(models: Iterable[ServedModel]) -> Collection[str]:
    """Return the languages that are translated from or to."""
    return dict.fromkeys(code for model in models for pair in model.pairs for code in pair)
