"""`Translator`: the public class that translates text with a trained model."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from transduce.config import SearchConfig
from transduce.errors import BadInput, BadRun
from transduce.glossary import Glossary
from transduce.markup.inline import Inline
from transduce.markup.protected import Protected
from transduce.markup.spans import SpanRules
from transduce.runs.folder import SUBWORDS, UNKNOWN_SOURCE, RunConfig, weights_file
from transduce.subwords import EOS, Codec, Coder
from transduce.translation.alignment import Links
from transduce.translation.engines.selection import choose_engine
from transduce.translation.finishing import checked, finish, finished_sentences, join_marked
from transduce.translation.joining import align_words, join, separator
from transduce.translation.memory import Memory
from transduce.translation.model_input import Mode, ModelInput
from transduce.translation.rounds import Align, Guard, Rounds, Steps
from transduce.translation.segments import (
    Attempt,
    Preparation,
    Segment,
    SegmentedText,
    Segmenter,
    Sentence,
    one_line,
    preparation,
)
from transduce.translation.streaming import read_blocks
from transduce.translation.translation import (
    Candidate,
    TranslatedSentence,
    Translation,
    Translations,
)
from transduce.translation.types import Engine, Hypothesis, Ints

T = TypeVar("T")

WINDOW = 100  # batches to read ahead, so that sentences of similar length are searched together
SCORE_BATCH = 32  # pairs per batch
SAMPLING = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}  # settings that require sample=True


class Translator:
    """A trained model, ready to translate.

    Thread safety: any number of threads may share one translator and use it at the same time, even
    on a GPU. Concurrent calls do not change each other's results. An iterator returned by `stream`
    must be used by one thread at a time.

    >>> translator = Translator.load("runs/en-de")
    >>> translator("The paper is the default.")
    'Das Papier ist die Vorgabe.'
    """

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        config: RunConfig,
        weights: str = "",
        *,
        attends: bool | None = None,
        directed: bool | None = None,
    ) -> None:
        self.engine, self.codec, self.config = engine, codec, config
        self.weights = weights  # a description of the weights
        self._attends = config.model.architecture == "transformer" if attends is None else attends
        # Whether the languages are chosen, if there are several pairs.
        self._directed = not config.pairs if directed is None else directed
        self._segmenter = Segmenter(codec, config, codec.target.forbidden_ids())

    @classmethod
    def load(
        cls,
        run: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        engine: str = "auto",
        quantize: str = "none",
    ) -> Self:
        """Load the model from a run folder, or an ensemble from several.

        An ensemble averages the probabilities of its models at each step (arithmetic mean). All
        models must have the same subwords; the first one's search settings are used.

        `engine` is torch, ctranslate2, or auto: the fastest available (`engine.name` says which).
        `quantize` is ctranslate2's number format for matrices: none (float32), int8 and so on, or
        auto: the fastest on this processor.
        """
        runs = [Path(path) for path in ([run] if isinstance(run, str | Path) else run)]
        if not runs:
            raise BadInput("there is no run to load: expected at least one folder")
        configs = [RunConfig.load(path) for path in runs]
        codec = _load_codec(runs, configs)
        weights = [weights_file(*pair)[1] for pair in zip(runs, configs, strict=True)]
        loaded = choose_engine(
            runs, configs, codec, engine=engine, device=device, quantize=quantize
        )
        limit = min(config.model.max_len for config in configs)
        model = dataclasses.replace(configs[0].model, max_len=limit)
        config = dataclasses.replace(configs[0], model=model)
        attends = all(c.model.architecture == "transformer" for c in configs)
        translator = cls(loaded, codec, config, "; ".join(weights), attends=attends)
        return translator.directed() if len(config.targets) == 1 else translator

    def directed(self, *, to: str | None = None, source: str | None = None) -> Self:
        """Return the translator to one target language, with the same model.

        A model of several pairs needs `to`. Only checks and sentence splitting use `source`, the
        source language. The pair may be one that the model was not trained on: see `zero_shot`.

        >>> Translator.load("runs/en-de").directed(to="de")("The paper is the default.")
        'Das Papier ist die Vorgabe.'
        """
        if self._directed and to is None and source is None:
            return self
        config = self.config.directed(to, source)
        how: dict[str, Any] = {"attends": self._attends, "directed": True}
        return type(self)(self.engine, self.codec, config, self.weights, **how)

    @property
    def zero_shot(self) -> bool:
        """Whether the source language is known, and the model was not trained on the pair."""
        known = self._directed and self.config.languages[0] != UNKNOWN_SOURCE
        return known and self.config.languages not in self.config.all_pairs

    def __call__(self, text: str, *, to: str | None = None, source: str | None = None) -> str:
        """Translate one text."""
        if not isinstance(text, str):
            raise BadInput(f"expected one text, found {text!r}: translate() takes several")
        return self.translate([text], to=to, source=source)[0].text

    def translate(
        self,
        texts: Sequence[str | Inline],
        *,
        to: str | None = None,
        source: str | None = None,
        prefixes: Sequence[str] | None = None,
        tag: str | None = None,
        batch: int | None = None,
        split: bool = True,
        align: bool = False,
        keep: bool | SpanRules | None = None,
        glossary: Glossary | None = None,
        guard: Guard = "off",
        memory: Memory | None = None,
        **settings: Any,
    ) -> Translations:
        """Translate texts; `settings` are fields of SearchConfig: beam, alpha, nbest and so on.

        `to` and `source` are the languages, of a model of several pairs: see `directed`.

        The sentences of a text are translated one by one and joined, because models are trained on
        single sentences. Candidate k joins the k-th best translations of the sentences, and its
        score is the sum of their scores. `split=False` translates each text as a whole, as is usual
        for test sets.

        Placeholders, URLs, code and other spans stay as they are; `keep` is False to translate them
        like other text (the default with `split=False`), or `SpanRules` with patterns of your own.
        A text may be an `Inline` with tags, which are placed in `Translation.content` by word
        alignment. `glossary` has translations for terms. `guard` is "flag" to check the
        translations, or "retry" to search again for those that are flagged. Texts and sentences
        that `memory` knows are not searched: `Translation.memory` lists them.

        With `prefixes`, the translation of each text begins with its prefix; a text whose prefix
        has several sentences is translated as a whole. `tag` is the tag of a corpus that the model
        was trained on. With `align`, candidates have word alignments. The result is a list, which a
        notebook shows as a table.
        """
        if isinstance(texts, str) or not all(isinstance(text, str | tuple) for text in texts):
            raise BadInput(f"expected a list of texts, found {texts!r:.60}")
        if prefixes is not None and len(prefixes) != len(texts):
            raise BadInput(
                f"{len(prefixes):,} prefixes for {len(texts):,} texts: expected one each"
            )
        given: dict[str, Any] = {"prefixes": prefixes, "tag": tag, "batch": batch}
        given |= {"keep": keep, "glossary": glossary, "guard": guard, "memory": memory}
        chosen = self.directed(to=to, source=source)
        return Translations(chosen.stream(texts, **given, split=split, align=align, **settings))

    def stream(
        self,
        texts: Iterable[str | Inline],
        *,
        prefixes: Iterable[str] | None = None,
        tag: str | None = None,
        batch: int | None = None,
        window: int = WINDOW,
        first: int = 0,
        ready: Callable[[], bool] = lambda: True,
        split: bool = True,
        align: bool = False,
        keep: bool | SpanRules | None = None,
        glossary: Glossary | None = None,
        guard: Guard = "off",
        memory: Memory | None = None,
        advance: Callable[[int], None] = lambda done: None,
        **settings: Any,
    ) -> Iterator[Translation]:
        """Translate any number of texts, in order, holding a window of them in memory.

        `batch` is the number of sentences searched side by side (by default the engine's choice),
        `window` the number of batches to read ahead; neither changes a translation. `first` is the
        number of the first text, on which samples depend. `ready` returns
        whether the next text can be read without waiting; if not, the texts read so far are
        translated at once. `advance` is called with the number of texts finished since the last
        call. The other arguments are as for `translate`.
        """
        config = self.config.search.replace(**settings)
        if not config.sample and config != config.replace(**SAMPLING):
            raise BadInput(f"{', '.join(SAMPLING)} are settings of sampling: they need sample=True")
        batch = self.engine.batch if batch is None else batch
        if batch < 1:
            raise BadInput(f"batch = {batch}: expected at least 1 sentence")
        how = preparation(split=split, tag=tag, keep=keep, glossary=glossary, memory=memory)
        prefix_lines = itertools.repeat(None) if prefixes is None else iter(prefixes)
        for block in read_blocks(texts, window * batch, ready):
            beginnings = list(itertools.islice(prefix_lines, len(block)))
            if len(beginnings) < len(block):
                raise BadInput(
                    f"there are {first + len(beginnings):,} prefixes but more texts: expected one "
                    "each"
                )
            prepared = self.prepare(block, how, beginnings, first)
            self._answer(self.searching(prepared, how, config, guard), batch, prepared, advance)
            yield from self._join(prepared, batch, align=align)
            first += len(block)

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        first: int = 1,
        tag: str | None = None,
        align: bool = False,
        **settings: Any,
    ) -> list[Candidate]:
        """Score given translations as the search would; `first` numbers pairs in errors.

        Each pair is scored as a whole, even if it has several sentences, because it is not known
        which sentence of the translation belongs to which sentence of the text.
        """
        if not self._directed:
            self.directed()  # says which target languages there are
        config = self.config.search.replace(**settings)
        source_coder, target_coder = self.codec.source, self.codec.target
        language = self.config.languages[1]
        tag_ids = [*source_coder.language_ids(language), *source_coder.tag_ids(tag)]
        encoded = [
            (self._ids(text, source_coder, tag_ids), self._ids(translation, target_coder))
            for text, translation in pairs
        ]
        limit = self.config.model.max_len
        for number, pair in enumerate(encoded, start=first):
            if max(map(len, pair)) > limit:
                raise BadInput(
                    f"pair {number:,} has {max(map(len, pair)):,} subwords on a side: "
                    f"the model scores at most {limit:,}"
                )
        log_probabilities = [0.0] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda i: sum(map(len, encoded[i])))
        for indices in _batched(order, SCORE_BATCH):
            scores = self.engine.score([encoded[i] for i in indices])
            for i, token_scores in zip(indices, scores, strict=True):
                log_probabilities[i] = sum(token_scores)
        scored = []
        rows = zip(pairs, encoded, log_probabilities, strict=True)
        for (text, _), (source_ids, target_ids), log_probability in rows:
            hypothesis = Hypothesis.of(target_ids[:-1].tolist(), log_probability, config)
            shown = ModelInput([text], text, range(len(text)))
            segments = [Segment(source_ids[:-1].tolist())]
            attempt = Attempt(Mode.TEXT, shown, segments, hypotheses=[[hypothesis]])
            sentence = Sentence("", 0, text, 0, [attempt])
            scored.append(SegmentedText(text, Protected(text), [sentence]))
        joined = self._join(scored, SCORE_BATCH, align=align)
        return [translation.candidates[0] for translation in joined]

    def prepare(
        self,
        texts: Sequence[str | Inline],
        how: Preparation,
        prefixes: Sequence[str | None] | None = None,
        first: int = 0,
    ) -> list[SegmentedText]:
        """Split and encode texts for the search."""
        if not self._directed:
            self.directed()  # says which target languages there are
        return self._segmenter.prepare(texts, prefixes or [None] * len(texts), first, how)

    def searching(
        self, texts: Sequence[SegmentedText], how: Preparation, config: SearchConfig, guard: Guard
    ) -> Steps[None]:
        """Return the steps that search prepared texts; see `rounds`."""
        space = separator(self.config.languages[1])
        return Rounds(self._segmenter, config, how.tag, guard, space, self._attends).run(texts)

    def finishing(self, texts: Sequence[SegmentedText], *, align: bool = False) -> Steps[None]:
        """Return the steps that complete the outputs of texts with spans or tags."""
        attends = self._attends or align  # without attention, the engine refuses to align
        language = self.config.languages[1]
        return finish(texts, self.codec, language, align=align, attends=attends)

    def sentences(self, text: SegmentedText) -> list[TranslatedSentence]:
        """Return the sentences of a finished text, each with its translations."""
        return finished_sentences(text, self.codec, self.config.languages[1])

    def joined(self, text: SegmentedText) -> Translation:
        """Return the translation of a finished text."""
        return next(self._join_plain_or_marked([text], iter(()), align=False))

    def _answer(
        self,
        steps: Steps[None],
        batch: int,
        texts: Sequence[SegmentedText] = (),
        advance: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Answer steps with the engine; count the texts of the first search."""
        # The job of each text's first segment, which counts the text.
        firsts = {(text.number, 0) for text in texts if text.segments}
        advance(len(texts) - len(firsts))
        with contextlib.suppress(StopIteration):
            step = next(steps)
            while True:
                if isinstance(step, Align):
                    batches = _batched(step.pairs, batch)
                    step = steps.send([w for pairs in batches for w in self.engine.align(pairs)])
                    continue
                results: list[list[Hypothesis]] = [[] for _ in step.jobs]
                for number, best in self.engine.search(step.jobs, step.config, batch):
                    results[number] = best
                    advance(int(step.jobs[number].number in firsts))
                step = steps.send(results)

    def _join(
        self, texts: Sequence[SegmentedText], batch: int, *, align: bool
    ) -> Iterator[Translation]:
        """Yield the translations of texts that were searched."""
        self._answer(self.finishing(texts, align=align), batch)
        plain = (text for text in texts if text.is_plain)
        pairs = (pair for text in plain for rank in range(text.nbest) for pair in text.pairs(rank))
        weights = itertools.chain.from_iterable(map(self.engine.align, _batched(pairs, batch)))
        yield from self._join_plain_or_marked(texts, weights, align=align)

    def _join_plain_or_marked(
        self,
        texts: Sequence[SegmentedText],
        weights: Iterator[npt.NDArray[np.float32]],
        *,
        align: bool,
    ) -> Iterator[Translation]:
        language = self.config.languages[1]
        for text in texts:
            if text.is_plain:
                alignments: list[Links] | None = None
                if align:
                    alignments = align_words(text, self.codec, language, weights)
                yield checked(text, join(text, self.codec, language, alignments))
            else:
                yield checked(text, join_marked(text, self.codec, language, align=align))

    @staticmethod
    def _ids(text: str, coder: Coder, tag_ids: Sequence[int] = ()) -> Ints:
        return np.array([*tag_ids, *coder.encode(one_line(text)), EOS])


def _load_codec(runs: Sequence[Path], configs: Sequence[RunConfig]) -> Codec:
    """Load the subwords shared by the runs; refuse runs whose subwords differ."""
    for run, config in zip(runs, configs, strict=True):
        config.require("translation", run)
    codec, *others = (
        Codec.load(config.verified(run, SUBWORDS))
        for run, config in zip(runs, configs, strict=True)
    )
    for run, other in zip(runs[1:], others, strict=True):
        if other.sha256 != codec.sha256:
            raise BadRun(
                f"{run} and {runs[0]} have different subwords: to translate together, models "
                "must be trained on the same text, with the same --valid and vocabulary"
            )
    for run, config in zip(runs, configs, strict=True):
        config.require_subwords(len(codec.source), len(codec.target), run)
    return codec


def _batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    return iter(lambda: list(itertools.islice(rest, size)), [])
