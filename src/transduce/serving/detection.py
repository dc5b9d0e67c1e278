"""The language of a request's texts, among the languages of the models."""

import asyncio
import re
import threading
from collections.abc import Collection, Sequence
from typing import Any

from transduce.errors import MissingExtra
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem
from transduce.serving.schemas import TranslateRequest
from transduce.serving.service import Service
from transduce.text.identification import Guess, identify_among, is_available

AUTO = "auto"
CHARACTERS = 2_000  # of a request that are read
TAG = re.compile(r"<[^<>]*>")

_lock = threading.Lock()  # the library's model is loaded once


async def rank_languages(
    texts: Sequence[str], languages: Collection[str], *, html: bool = False
) -> list[Guess]:
    """Return the languages, the most probable first; none if the texts do not tell."""
    text = "\n".join(texts)[: 2 * CHARACTERS if html else CHARACTERS]
    return await asyncio.to_thread(_rank, TAG.sub(" ", text) if html else text, languages)


def _rank(text: str, languages: Collection[str]) -> list[Guess]:
    with _lock:
        return identify_among(text, languages)


async def detected_languages(
    texts: Sequence[str], models: Collection[ServedModel]
) -> list[dict[str, Any]]:
    """Return the probable languages as LibreTranslate does, with confidences up to 100."""
    try:
        guesses = await rank_languages(texts, _languages(models))
    except MissingExtra as error:
        raise Problem(501, str(error)) from None
    likely = [guess for guess in guesses if guess is guesses[0] or guess.probability >= 0.01]
    sources = dict.fromkeys(source for model in models for source, _ in model.pairs)
    return [to_json(guess) for guess in likely] or [to_json(Guess(code, 0)) for code in sources][:1]


async def detect_source(
    texts: Sequence[str], models: Collection[ServedModel], target: str | None, *, html: bool
) -> Guess | None:
    """Return the most probable source language of the models for a target, or for any (None).

    The first one if the texts do not tell; None if there is no model, or if there are several
    and the library is not installed.
    """
    pairs = [pair for model in models for pair in model.pairs]
    sources = [pair[0] for pair in pairs if target in (None, pair[1])]
    guesses = []
    if is_available():
        guesses = await rank_languages(texts, _languages(models), html=html)
    elif len(set(sources)) > 1:
        return None
    likely = (guess for guess in guesses if guess.language in sources)
    return next(likely, Guess(sources[0], 0.0) if sources else None)


async def source_of(parameters: TranslateRequest, service: Service) -> str | None:
    """Return the source language of a request to /api/translate, detected if it is `auto`."""
    if parameters.source != AUTO:
        return parameters.source
    service.check([parameters.text])
    named = parameters.model is not None
    models = [service.named(parameters.model)] if named else [*service.models.values()]
    html = parameters.format == "html"
    guess = await detect_source([parameters.text], models, parameters.target, html=html)
    if guess is None and any(
        parameters.target in (None, pair[1]) for m in models for pair in m.pairs
    ):
        needs = ("source = auto", "py3langid", "language", "give the source language")
        raise Problem(501, str(MissingExtra(*needs)))
    return guess.language if guess else None


def to_json(guess: Guess) -> dict[str, Any]:
    """Return a guess as LibreTranslate does."""
    return {"confidence": round(100 * guess.probability, 1), "language": guess.language}


def _languages(models: Collection[ServedModel]) -> Collection[str]:
    return dict.fromkeys(code for model in models for pair in model.pairs for code in pair)
