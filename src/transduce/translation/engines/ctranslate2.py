"""The engine for processors: CTranslate2, on an export of the model.

Its search is not ours to the letter (transduce.decoding.search has ours). It too takes the best
continuations of each step; but a hypothesis that ends makes room for the next best, and a sentence
is done when `beam` have ended (with alpha = 0, when the best has). All that ended are scored here,
by our penalty.

A batch has one limit, and a word that it may not write has no part in its probabilities. So a batch
is searched with the limit of its longest and with every word. Sentences for which something came
out that may not are searched again with their own limit, and if need be without those words.
"""

import collections
import copy
import errno
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from transduce.config import ModelConfig, SearchConfig
from transduce.errors import BadInput
from transduce.interop.export.cache import load_export
from transduce.interop.export.ctranslate2 import choose_quantization, library
from transduce.interop.export.support import CTRANSLATE2
from transduce.runs.folder import RunConfig
from transduce.subwords import EOS, Codec
from transduce.system.processes import cores
from transduce.translation.types import Hypothesis, Ints, Job, output_limit

AHEAD = 2  # batches that wait for each worker
IMPOSSIBLE = -1e9  # CTranslate2 gives less to what it fills a beam with where it has nothing

Tokens = list[str]


class Piece(NamedTuple):
    """A job and its place among others."""

    place: int
    job: Job


class Output(NamedTuple):
    """What the library's search has found, and the sum of the log-probabilities that it counts."""

    ids: list[int]
    total: float
    ended: bool  # by </s>, not by its limit


Found = tuple[Piece, list[Output]]


class CTranslate2Engine:
    """An export that searches, a worker with one thread on each core.

    Threads that share one sentence would wait for each other at every product of small matrices.
    """

    batch = 32

    def __init__(self, folder: Path, codec: Codec, model: ModelConfig, quantize: str) -> None:
        self.model, self.codec = model, codec
        self.workers = cores()
        self.name = f"ctranslate2 on cpu, {'float32' if quantize == 'none' else quantize}"
        self.number = {name: number for number, name in enumerate(codec.target.names)}
        self.forbidden = frozenset(codec.target.forbidden_ids())
        self.suppressed = [[codec.target.names[number]] for number in self.forbidden]
        try:
            self.translator = library().Translator(
                os.fsencode(folder),  # a name need not be text
                device="cpu",
                compute_type="float32" if quantize == "none" else quantize,
                inter_threads=self.workers,
                intra_threads=1,
                max_queued_batches=-1,  # it is we who wait
            )
        except RuntimeError as error:  # so it tells that a file is gone
            raise OSError(errno.EIO, str(error), str(folder)) from None

    @classmethod
    def load(cls, run: Path, config: RunConfig, codec: Codec, quantize: str = "none") -> Self:
        """Load the model of a run folder, from the cache of exports or exported now."""
        CTRANSLATE2.require_support(config.model)
        chosen = choose_quantization(quantize)
        compute_type = "float32" if chosen == "none" else chosen
        supported = library().get_supported_compute_types("cpu")
        if compute_type not in supported:
            raise BadInput(
                f"quantize = {quantize!r}: this processor computes with "
                f"{', '.join(sorted(supported - {'float32'}))} and none, which is float32"
            )
        return load_export(
            run, config, codec, chosen, lambda folder: cls(folder, codec, config.model, chosen)
        )

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's place and its outputs."""
        if config.sample:
            raise BadInput(
                "the engine ctranslate2 does not draw translations: what it would draw for one "
                "sentence depends on those beside it; use the engine torch"
            )
        left = [Piece(*each) for each in enumerate(jobs)]
        for strict, together in ((False, True), (False, False), (True, False)):
            chunks = self._chunks(left, config, batch, together=together)
            left = []
            # Their number changes nothing but with alpha = 0: then the best ends the search.
            some = config.beam if config.alpha or not together else config.nbest
            for found in self._in_parallel(chunks, config, some=some, strict=strict):
                fine = []
                for piece, outputs in found:
                    if strict or self._may_be(piece.job, outputs, config):
                        fine.append((piece, outputs))
                    else:
                        left.append(piece)
                yield from self._scored(fine, config, strict=strict)

    def lanes(self) -> list[Self]:
        """Return an engine for each worker: what one is given, it searches together."""
        lane = copy.copy(self)
        lane.workers = 1
        return [lane] * self.workers

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of given targets, </s> included."""
        scored = self.translator.score_batch(
            [self._source(source) for source, _ in pairs],
            [self._target(target[:-1]) for _, target in pairs],  # it adds </s> itself
            max_batch_size=-(-len(pairs) // self.workers),
            max_input_length=0,
        )
        return [one.log_probs for one in scored]

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return the decoder's attention to the source, the mean of the last layer's heads."""
        found = []
        for source, target in pairs:
            if len(source) == 1:  # </s> alone, which it does not search
                found.append(np.ones((len(target), 1), np.float32))
                continue
            (result,) = self.translator.translate_batch(
                [self._source(source)],
                target_prefix=[self._target(target[:-1])],
                beam_size=1,
                max_input_length=0,
                max_decoding_length=len(target),
                return_end_token=True,
                return_attention=True,
            )
            weights = np.array(result.attention[0], np.float32)
            # It keeps back those of the </s> that it has added: what is left of 1.
            found.append(np.column_stack([weights, 1 - weights.sum(1)]))
        return found

    def _chunks(
        self, pieces: list[Piece], config: SearchConfig, batch: int, *, together: bool
    ) -> list[list[Piece]]:
        """Make batches; unless all may be together, those of one batch have one limit."""
        pieces = sorted(pieces, key=lambda piece: -len(piece.job.source))  # so none ends alone
        size = max(1, min(batch, -(-len(pieces) // self.workers)))
        groups: dict[int, list[Piece]] = {}
        for piece in pieces:
            limit = 0 if together else self._limit(piece.job, config)
            groups.setdefault(limit, []).append(piece)
        return [
            group[begin : begin + size]
            for group in groups.values()
            for begin in range(0, len(group), size)
        ]

    def _in_parallel(
        self, chunks: Iterable[list[Piece]], config: SearchConfig, *, some: int, strict: bool
    ) -> Iterator[list[Found]]:
        """Yield what was found for each batch, with others waiting for each worker."""
        waiting: collections.deque[tuple[list[Piece], list[Any]]] = collections.deque()

        def oldest() -> list[Found]:
            pieces, results = waiting.popleft()
            outputs = [self._outputs(one.result(), config) for one in results]
            return list(zip(pieces, outputs, strict=True))

        for pieces in chunks:
            jobs = [piece.job for piece in pieces]
            waiting.append((pieces, self._begin(jobs, config, some=some, strict=strict)))
            if len(waiting) > AHEAD * self.workers:
                yield oldest()
        while waiting:
            yield oldest()

    def _begin(
        self, jobs: list[Job], config: SearchConfig, *, some: int, strict: bool
    ) -> list[Any]:
        """Begin to search one batch for `some` outputs of each."""
        prefixes = [self._target(job.prefix) for job in jobs]
        return self.translator.translate_batch(  # type: ignore[no-any-return]
            [self._source(job.source) for job in jobs],
            target_prefix=prefixes if any(prefixes) else None,
            asynchronous=True,
            beam_size=config.beam,
            num_hypotheses=some,
            length_penalty=config.alpha,
            suppress_sequences=self.suppressed if strict else None,
            max_input_length=0,
            max_decoding_length=max(self._limit(job, config) for job in jobs) - 1,
            min_decoding_length=0,
            return_scores=True,
            return_end_token=True,  # then its length counts </s>, as ours does
        )

    def _limit(self, job: Job, config: SearchConfig) -> int:
        return output_limit(job, config, self.model.max_positions)

    def _outputs(self, result: Any, config: SearchConfig) -> list[Output]:
        """Return what was found for one job."""
        outputs = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            total = score * len(tokens) ** config.alpha
            if total > IMPOSSIBLE:
                ids = [self.number[token] for token in tokens]
                ended = ids[-1:] == [EOS]  # a source of </s> alone is not searched: it has no ids
                outputs.append(Output(ids[:-1] if ended else ids, total, ended))
        return outputs

    def _may_be(self, job: Job, outputs: list[Output], config: SearchConfig) -> bool:
        """Tell whether all that was found for a job may come out, and is all there is to find."""
        limit = self._limit(job, config)
        return all(
            len(output.ids) < limit
            and self.forbidden.isdisjoint(output.ids)
            and (output.ended or len(outputs) == config.beam)  # else their ends may say otherwise
            for output in outputs
        )

    def _scored(
        self, found: list[Found], config: SearchConfig, *, strict: bool
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the outputs of a batch with our scores.

        What the search does not count is counted here: prefixes, which it takes for certain, the
        end of what was cut at its limit, and the words that a strict search leaves out.
        """
        uncounted = [
            (piece.job.source, np.array([*output.ids, EOS]))
            for piece, outputs in found
            for output in outputs
            if strict or piece.job.prefix or not output.ended
        ]
        counted = map(math.fsum, self.score(uncounted) if uncounted else ())
        for piece, outputs in found:
            hypotheses = []
            for output in outputs:
                exact = output.ended and not (strict or piece.job.prefix)
                total = output.total if exact else next(counted)
                hypotheses.append(Hypothesis.of(output.ids, total, config))
            hypotheses.sort(key=lambda one: -one.score)
            yield piece.place, hypotheses[: config.nbest]

    def _source(self, ids: Ints) -> Tokens:
        names = self.codec.source.names
        return [names[number] for number in ids[:-1].tolist()]  # it adds </s> itself

    def _target(self, ids: Iterable[int]) -> Tokens:
        names = self.codec.target.names
        return [names[number] for number in ids]
