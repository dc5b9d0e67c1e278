"""The models that are served."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.errors import BadInput, BadRun
from transduce.glossary import Glossary
from transduce.runs.arrays import count_values, hash_of
from transduce.runs.folder import UNKNOWN_SOURCE, RunConfig, weights_file
from transduce.runs.history import RunLog
from transduce.serving.languages import language_name
from transduce.translation.translator import Translator

EXAMPLES, MAX_EXAMPLE = 3, 100  # sentences, characters


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ServedModel:
    """A model and its name in requests."""

    name: str
    run: Path
    translator: Translator
    parameters: int
    examples: tuple[str, ...] = ()  # validation sentences to try
    glossaries: Mapping[str, Glossary] = field(default_factory=dict)  # that requests may use
    version: str = ""  # hash of the weights
    options: Mapping[str, str] = field(default_factory=dict)  # of `load`
    whole: "ServedModel | None" = None  # the model of which this is one direction

    @classmethod
    def load(
        cls,
        run: Path,
        name: str,
        *,
        device: str = "auto",
        engine: str = "auto",
        quantize: str = "none",
        glossaries: Mapping[str, Glossary] | None = None,
    ) -> "ServedModel":
        """Load the model from a run folder."""
        options = {"device": device, "engine": engine, "quantize": quantize}
        version = hash_of(weights_file(run, RunConfig.load(run))[0])
        translator = Translator.load(run, **options)
        weights = weights_file(run, translator.config)[0]
        if hash_of(weights) != version:
            raise BadRun(f"{run} has changed while it was loaded: try again")
        parameters, examples = count_values(weights), examples_of(run)
        return cls(
            *(name, run, translator, parameters, examples, glossaries or {}, version, options)
        )

    def load_again(self) -> "ServedModel":
        """Load the present weights of the run folder."""
        return self.load(self.run, self.name, **self.options, glossaries=self.glossaries)

    @property
    def languages(self) -> tuple[str, str]:
        """The source and target language."""
        return self.translator.config.languages

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All pairs of languages of the model."""
        return self.translator.config.all_pairs

    @property
    def served(self) -> "ServedModel":
        """The model itself, if this is one direction of it."""
        return self.whole or self

    def directed(self, *, to: str | None, source: str | None) -> "ServedModel":
        """Return one direction of the model, named like MODEL:en-de."""
        translator = self.translator.directed(to=to, source=source)
        if not self.translator.config.pairs:
            return self
        known = translator.config.languages[0] != UNKNOWN_SOURCE
        name = f"{self.name}:{'-'.join(translator.config.languages)}" if known else self.name
        sources = {source for source, _ in self.pairs}
        examples = self.examples if len(sources) == 1 else ()  # they are not told apart
        return dataclasses.replace(
            self, name=name, translator=translator, examples=examples, whole=self
        )

    def directions(self) -> "list[ServedModel]":
        """Return one model for each pair of languages."""
        return [self.directed(to=target, source=source) for source, target in self.pairs]

    def to_json(self) -> dict[str, Any]:
        """Return the description for clients."""
        source, target = self.languages
        search = self.translator.config.search
        return {
            "name": self.name,
            "source": source,
            "target": target,
            "source_name": language_name(source),
            "target_name": language_name(target),
            "engine": self.translator.engine.name,
            "weights": self.translator.weights,
            "version": self.version,
            "parameters": self.parameters,
            "settings": self.translator.config.model.to_json(),
            "search": {"beam": search.beam, "alpha": search.alpha, "nbest": search.nbest},
            "examples": list(self.examples),
            "glossaries": list(self.glossaries),
        }


def examples_of(run: Path) -> tuple[str, ...]:
    """Return short validation sentences of a run from samples.jsonl, if it has any.

    They resemble the training data, but the model was not trained on them.
    """
    log = RunLog(run)
    log.catch_up()
    short_sentences = [
        sentence
        for sentence in dict.fromkeys(log.source)
        if sentence.strip() and len(sentence) <= MAX_EXAMPLE
    ]
    return tuple(short_sentences[:EXAMPLES])


def choose_names(runs: Sequence[Path], given: Sequence[str] = ()) -> list[str]:
    """Return a name for each run: the given one or its folder's; equal names are numbered."""
    if given and len(given) != len(runs):
        raise BadInput(
            f"{len(given)} names for {len(runs)} runs: give --name once for each run, or never"
        )
    names = [*given] or [run.resolve().name for run in runs]
    for name in names:
        if not name.strip():
            raise BadInput(f"--name {name!r} is blank: expected a name")
    count, numbers = Counter(names), Counter[str]()
    if given and len(count) < len(names):
        name = next(name for name in count if count[name] > 1)
        raise BadInput(f"--name {name} is given twice: requests select a model by its name")
    unique = []
    for name in names:
        numbers[name] += 1
        unique.append(f"{name}-{numbers[name]}" if count[name] > 1 else name)
    return unique
