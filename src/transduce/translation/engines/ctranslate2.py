"""The fastest engine on CPUs: CTranslate2 with an exported model.

Its beam search differs from ours (decoding/search.py): a hypothesis that ends frees its place for
the next best, and a sentence is done when `beam` hypotheses have ended (with alpha = 0, when the
best one has). All ended hypotheses are scored here, with our length penalty.

CTranslate2 has one length limit per batch, and suppressing a word changes the probabilities of the
others. So a batch is first searched with its largest limit and with all words. Sentences whose
outputs are not allowed are searched again with their own limit and, if necessary, with the
forbidden words suppressed.

Sampling, and searching for outputs that contain required phrases, is left to torch's engine, which
is loaded when it is first needed.
"""

import collections
import copy
import errno
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from transduce.config import ModelConfig, SearchConfig
from transduce.errors import BadInput
from transduce.interop.export.ctranslate2 import choose_quantization, library
from transduce.interop.export.ctranslate2_cache import load_export
from transduce.interop.export.support import CTRANSLATE2
from transduce.runs.folder import RunConfig
from transduce.subwords import EOS, Codec
from transduce.system.processes import cores
from transduce.translation.types import Engine, Hypothesis, Ints, Job, output_limit

AHEAD = 2  # queued batches per worker
IMPOSSIBLE = -1e9  # CTranslate2 scores hypotheses that only pad the beam below this

Tokens = list[str]


class IndexedJob(NamedTuple):
    """A job and its index in the search."""

    number: int
    job: Job


class Output(NamedTuple):
    """A hypothesis from CTranslate2, with the sum of its tokens' log-probabilities."""

    ids: list[int]
    total: float
    ended: bool  # by </s>, not by the length limit


JobOutputs = tuple[IndexedJob, list[Output]]


class CTranslate2Engine:
    """Searches with one single-threaded worker per core.

    Several threads working on one sentence would wait for each other at every small matrix product.
    """

    batch = 32

    def __init__(self, folder: Path, codec: Codec, model: ModelConfig, quantize: str) -> None:
        self.model, self.codec = model, codec
        self.workers = cores()
        # Loads torch's engine, which can sample and require phrases.
        self.load_torch: Callable[[], Engine] | None = None
        self.name = f"ctranslate2 on cpu, {'float32' if quantize == 'none' else quantize}"
        self.number = {name: number for number, name in enumerate(codec.target.names)}
        self.forbidden = frozenset(codec.target.forbidden_ids())
        self.suppressed = [[codec.target.names[number]] for number in self.forbidden]
        try:
            self.translator = library().Translator(
                os.fsencode(folder),  # a file name may not be valid text
                device="cpu",
                compute_type="float32" if quantize == "none" else quantize,
                inter_threads=self.workers,
                intra_threads=1,
                max_queued_batches=-1,  # `_in_parallel` limits them
            )
        except RuntimeError as error:  # CTranslate2's error for a missing file
            raise OSError(errno.EIO, str(error), str(folder)) from None

    @classmethod
    def load(cls, run: Path, config: RunConfig, codec: Codec, quantize: str = "none") -> Self:
        """Load the model from a run folder; export it first unless the export is cached."""
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
        """Yield each job's index and its hypotheses."""
        if config.sample:
            reason = "sample translations: its samples would depend on the other sentences of a"
            yield from self._torch(f"{reason} batch").search(jobs, config, batch)
            return
        with_phrases = [IndexedJob(number, job) for number, job in enumerate(jobs) if job.required]
        if with_phrases:
            torch = self._torch("search for translations with required terms")
            searched = torch.search([indexed.job for indexed in with_phrases], config, batch)
            for index, hypotheses in searched:
                yield with_phrases[index].number, hypotheses
        remaining = [IndexedJob(number, job) for number, job in enumerate(jobs) if not job.required]
        for strict, any_limit in ((False, True), (False, False), (True, False)):
            batches = self._batches(remaining, config, batch, any_limit=any_limit)
            remaining = []
            # The number of hypotheses matters only with alpha = 0: then the best ends the search.
            count = config.beam if config.alpha or not any_limit else config.nbest
            for results in self._in_parallel(batches, config, count=count, strict=strict):
                allowed = []
                for indexed, outputs in results:
                    if strict or self._is_allowed(indexed.job, outputs, config):
                        allowed.append((indexed, outputs))
                    else:
                        remaining.append(indexed)
                yield from self._scored(allowed, config, strict=strict)

    def _torch(self, purpose: str) -> Engine:
        if self.load_torch is None:
            raise BadInput(f"the engine ctranslate2 does not {purpose}; use the engine torch")
        return self.load_torch()

    def lanes(self) -> list[Self]:
        """Return an engine for each worker."""
        lane = copy.copy(self)
        lane.workers = 1
        return [lane] * self.workers

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of the given targets, </s> included."""
        scored = self.translator.score_batch(
            [self._source(source) for source, _ in pairs],
            [self._target(target[:-1]) for _, target in pairs],  # CTranslate2 adds </s>
            max_batch_size=-(-len(pairs) // self.workers),
            max_input_length=0,
        )
        return [result.log_probs for result in scored]

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return the decoder's attention to the source, averaged over the last layer's heads."""
        alignments = []
        for source, target in pairs:
            if len(source) == 1:  # only </s>, which CTranslate2 does not search
                alignments.append(np.ones((len(target), 1), np.float32))
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
            # CTranslate2 omits the weights of the </s> that it added to the source. Each row of
            # weights sums to 1.
            alignments.append(np.column_stack([weights, 1 - weights.sum(1)]))
        return alignments

    def _batches(
        self, jobs: list[IndexedJob], config: SearchConfig, size: int, *, any_limit: bool
    ) -> list[list[IndexedJob]]:
        """Make batches of similar lengths; unless `any_limit`, each batch has one length limit."""
        jobs = sorted(jobs, key=lambda indexed: -len(indexed.job.source))
        size = max(1, min(size, -(-len(jobs) // self.workers)))
        groups: dict[int, list[IndexedJob]] = {}
        for indexed in jobs:
            limit = 0 if any_limit else self._limit(indexed.job, config)
            groups.setdefault(limit, []).append(indexed)
        return [
            group[begin : begin + size]
            for group in groups.values()
            for begin in range(0, len(group), size)
        ]

    def _in_parallel(
        self, batches: Iterable[list[IndexedJob]], config: SearchConfig, *, count: int, strict: bool
    ) -> Iterator[list[JobOutputs]]:
        """Yield the outputs of each batch, while later batches are queued for the workers."""
        queued: collections.deque[tuple[list[IndexedJob], list[Any]]] = collections.deque()

        def oldest() -> list[JobOutputs]:
            jobs, results = queued.popleft()
            outputs = [self._outputs(result.result(), config) for result in results]
            return list(zip(jobs, outputs, strict=True))

        for batch in batches:
            jobs = [indexed.job for indexed in batch]
            queued.append((batch, self._begin(jobs, config, count=count, strict=strict)))
            if len(queued) > AHEAD * self.workers:
                yield oldest()
        while queued:
            yield oldest()

    def _begin(
        self, jobs: list[Job], config: SearchConfig, *, count: int, strict: bool
    ) -> list[Any]:
        """Start searching a batch for `count` hypotheses per job."""
        prefixes = [self._target(job.prefix) for job in jobs]
        return self.translator.translate_batch(  # type: ignore[no-any-return]
            [self._source(job.source) for job in jobs],
            target_prefix=prefixes if any(prefixes) else None,
            asynchronous=True,
            beam_size=config.beam,
            num_hypotheses=count,
            length_penalty=config.alpha,
            suppress_sequences=self.suppressed if strict else None,
            max_input_length=0,
            max_decoding_length=max(self._limit(job, config) for job in jobs) - 1,
            min_decoding_length=0,
            return_scores=True,
            return_end_token=True,  # so that the length counts </s>, as ours does
        )

    def _limit(self, job: Job, config: SearchConfig) -> int:
        return output_limit(job, config, self.model.max_positions)

    def _outputs(self, result: Any, config: SearchConfig) -> list[Output]:
        """Return the hypotheses of one job."""
        outputs = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            total = score * len(tokens) ** config.alpha
            if total > IMPOSSIBLE:
                ids = [self.number[token] for token in tokens]
                ended = ids[-1:] == [EOS]  # there are no ids if the source is only </s>
                outputs.append(Output(ids[:-1] if ended else ids, total, ended))
        return outputs

    def _is_allowed(self, job: Job, outputs: list[Output], config: SearchConfig) -> bool:
        """Return whether all outputs are within the job's limit and have no forbidden words."""
        limit = self._limit(job, config)
        return all(
            len(output.ids) < limit
            and self.forbidden.isdisjoint(output.ids)
            and (output.ended or len(outputs) == config.beam)  # else more could have ended
            for output in outputs
        )

    def _scored(
        self, results: list[JobOutputs], config: SearchConfig, *, strict: bool
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the outputs of a batch with our scores.

        Some log-probabilities are computed here: for outputs with a prefix, to which the search
        gives probability 1; for outputs cut at the limit, which lack </s>; and after a strict
        search, which renormalises without the suppressed words.
        """
        inexact = [
            (indexed.job.source, np.array([*output.ids, EOS]))
            for indexed, outputs in results
            for output in outputs
            if strict or indexed.job.prefix or not output.ended
        ]
        totals = map(math.fsum, self.score(inexact) if inexact else ())
        for indexed, outputs in results:
            hypotheses = []
            for output in outputs:
                exact = output.ended and not (strict or indexed.job.prefix)
                total = output.total if exact else next(totals)
                hypotheses.append(Hypothesis.of(output.ids, total, config))
            hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
            yield indexed.number, hypotheses[: config.nbest]

    def _source(self, ids: Ints) -> Tokens:
        names = self.codec.source.names
        return [names[number] for number in ids[:-1].tolist()]  # CTranslate2 adds </s>

    def _target(self, ids: Iterable[int]) -> Tokens:
        names = self.codec.target.names
        return [names[number] for number in ids]
