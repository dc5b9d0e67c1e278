"""Documents of all formats, translated by a fake translator and by a model, and read again."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from document_corpus import fake
from document_corpus.corpus import Made, documents
from document_corpus.reading import Verdict

from faults.tally import Tally
from transduce import Translator
from transduce.documents.translating import Translate
from transduce.markup import Inline

COUNT = 200
STEPS = 600  # of the model's training
SHOWN = 3  # faults of a document that are printed


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Translate `count` documents twice."""
    return [by_fake(count, seed), by_model(count, seed, _translator(folder))]


def by_fake(count: int, seed: int, size: float = 1.0) -> Tally:
    """Every word is changed, and words, spans and tags are moved: the result is known."""
    tally = Tally("documents: only words change, and spans stay", seed)
    total = Verdict()
    for made in documents(count, seed, size):
        translate = fake.translator(made.spans, seed)
        _add(tally, total, made, translate, exact=True)
    return _with_figures(tally, total)


def by_model(
    count: int, seed: int, translator: Translator, size: float = 1.0, **options: Any
) -> Tally:
    """What a model writes is not known: structure, codes and spans must be the same."""
    tally = Tally("documents-model: structure and spans stay", seed)
    total = Verdict()

    def translate(contents: Iterable[Inline]) -> Iterator[Inline]:
        for translation in translator.stream(list(contents), **options):
            assert translation.content is not None
            yield translation.content

    for made in documents(count, seed, size):
        _add(tally, total, made, translate, exact=False)
    tally.figures["codes that left the element around them"] = f"{total.moved:,}"
    tally.figures["texts for which the model wrote nothing"] = f"{total.emptied:,}"
    return _with_figures(tally, total)


def _add(tally: Tally, total: Verdict, made: Made, translate: Translate, *, exact: bool) -> None:
    try:
        verdict = made.compared(made.translated(translate), exact=exact)
    except Exception as error:
        tally.fail(f"{made.name} (seed {tally.seed}): {type(error).__name__}: {error}")
        return
    total.blocks += verdict.blocks
    total.spans += verdict.spans
    total.broken_spans += verdict.broken_spans
    total.moved += verdict.moved
    total.emptied += verdict.emptied
    if verdict.faults:
        tally.fail(f"{made.name} (seed {tally.seed}): {'; '.join(verdict.faults[:SHOWN])}")
    else:
        tally.hold(made.kind.format)


def _with_figures(tally: Tally, total: Verdict) -> Tally:
    tally.figures["texts compared"] = f"{total.blocks:,}"
    tally.figures["protected spans"] = (
        f"{total.spans:,}, of which {total.broken_spans:,} are lost or broken"
    )
    return tally


def _translator(folder: Path) -> Translator:
    """Train a small model on the built-in corpus."""
    from conftest import write_pairs

    from transduce.datasets.pocket import pairs
    from transduce.training.train import train

    run = folder / f"run-{time.strftime('%Y%m%d-%H%M%S')}"
    run.mkdir(parents=True)
    texts = write_pairs(run, "pocket", pairs(5_000))
    settings = {"steps": str(STEPS), "threads": "1", "vocabulary": "1000"}
    train(*texts, out=run / "run", settings=settings, preset="tiny", device="cpu")
    return Translator.load(run / "run")
