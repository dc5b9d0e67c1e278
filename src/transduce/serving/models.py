"""The models that are served."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.errors import BadInput
from transduce.runs.arrays import count_values
from transduce.runs.folder import weights_file
from transduce.runs.history import Followed
from transduce.serving.languages import name_of_language
from transduce.translation.translator import Translator

EXAMPLES, LONGEST_EXAMPLE = 3, 100  # sentences, characters


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model and the name that it is asked for by."""

    name: str
    run: Path
    translator: Translator
    parameters: int
    examples: tuple[str, ...] = ()  # sentences to try, of its own validation set

    @classmethod
    def load(
        cls,
        run: Path,
        name: str,
        *,
        device: str = "auto",
        engine: str = "auto",
        quantize: str = "none",
    ) -> "ServedModel":
        """Load the model of a run folder."""
        translator = Translator.load(run, device=device, engine=engine, quantize=quantize)
        parameters = count_values(weights_file(run, translator.config)[0])
        return cls(name, run, translator, parameters, examples_of(run))

    @property
    def languages(self) -> tuple[str, str]:
        """The languages that it translates from and to."""
        return self.translator.config.languages

    def to_json(self) -> dict[str, Any]:
        """Return what clients are told of it."""
        source, target = self.languages
        search = self.translator.config.search
        return {
            "name": self.name,
            "source": source,
            "target": target,
            "source_name": name_of_language(source),
            "target_name": name_of_language(target),
            "engine": self.translator.engine.name,
            "weights": self.translator.weights,
            "parameters": self.parameters,
            "settings": self.translator.config.model.to_json(),
            "search": {"beam": search.beam, "alpha": search.alpha, "nbest": search.nbest},
            "examples": list(self.examples),
        }


def examples_of(run: Path) -> tuple[str, ...]:
    """Return short validation sentences of a run, as samples.jsonl has them; none if it has none.

    They are of the kind that the model was trained on, but it was not trained on them.
    """
    log = Followed(run)
    log.catch_up()
    short = [
        one for one in dict.fromkeys(log.source) if one.strip() and len(one) <= LONGEST_EXAMPLE
    ]
    return tuple(short[:EXAMPLES])


def names_of(runs: Sequence[Path], given: Sequence[str] = ()) -> list[str]:
    """Return a name for each run: as given, else its folder's; those of one name are numbered."""
    if given and len(given) != len(runs):
        raise BadInput(
            f"there are {len(given)} names for {len(runs)} runs: give --name once for each or never"
        )
    names = [*given] or [run.resolve().name for run in runs]
    blank = next((name for name in names if not name.strip()), None)
    if blank is not None:
        raise BadInput(f"--name {blank!r}: expected a name that can be read")
    often, seen = Counter(names), Counter[str]()
    if given and len(often) < len(names):
        twice = next(name for name, count in often.items() if count > 1)
        raise BadInput(f"--name {twice} stands twice: a model is asked for by its name alone")
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name}-{seen[name]}" if often[name] > 1 else name)
    return found
