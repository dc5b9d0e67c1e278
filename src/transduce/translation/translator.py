"""Strings to strings: the public way to use a trained model."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from transduce.config import SearchConfig
from transduce.errors import BadInput, BadRun
from transduce.runs.folder import SUBWORDS, RunConfig, weights_file
from transduce.subwords import EOS, Codec, Coder
from transduce.text.splitting import check_installed as splitter_ready
from transduce.text.splitting import split_line
from transduce.translation.alignment import Links, links, words_of
from transduce.translation.engines.selection import choose_engine
from transduce.translation.segments import Part, cut, gaps, source_words
from transduce.translation.translation import Candidate, Segment, Translation, Translations
from transduce.translation.types import Engine, Hypothesis, Ints, Job

T = TypeVar("T")

WINDOW = 100  # batches that are read ahead, so that similar lengths meet
CHARACTERS = 4_000_000  # that are read ahead at most, for memory must stay bounded


OF_DRAWS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


class Translator:
    """A trained model, ready to translate.

    >>> translator = Translator.load("runs/en-de")
    >>> translator("The paper is the default.")
    'Das Papier ist die Vorgabe.'
    """

    def __init__(self, engine: Engine, codec: Codec, config: RunConfig, weights: str = "") -> None:
        self.engine, self.codec, self.config = engine, codec, config
        self.weights = weights  # in words, which weights these are
        self.forbidden = codec.target.forbidden_ids()

    @classmethod
    def load(
        cls,
        run: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        engine: str = "auto",
        quantize: str = "none",
    ) -> Self:
        """Load the model of a run folder, or of several: then the mean of what they predict counts.

        At each step it is the arithmetic mean of their probabilities. All must have the same
        subwords; everything else, the settings of the search included, is the first one's.

        `engine` is torch, ctranslate2, or auto: the fastest there is, which its `name` tells.
        `quantize` is how ctranslate2 holds the matrices: none (float32), int8 and so on, or auto:
        what this processor multiplies fastest.
        """
        runs = [Path(one) for one in ([run] if isinstance(run, str | Path) else run)]
        if not runs:
            raise BadInput("there is no run to load: expected at least one folder")
        first, *others = runs
        configs = [RunConfig.load(one) for one in runs]
        for one, config in zip(runs, configs, strict=True):
            config.require("translation", one)
        codec, *theirs = (
            Codec.load(config.own(one, SUBWORDS)) for one, config in zip(runs, configs, strict=True)
        )
        for other, its in zip(others, theirs, strict=True):
            if its.sha256 != codec.sha256:
                raise BadRun(
                    f"{other} and {first} have different subwords: to translate together, models "
                    "must be trained on the same text, with the same --valid and vocabulary"
                )
        for one, config in zip(runs, configs, strict=True):
            config.require_subwords(len(codec.source), len(codec.target), one)
        words = [weights_file(*one)[1] for one in zip(runs, configs, strict=True)]
        loaded = choose_engine(
            runs, configs, codec, engine=engine, device=device, quantize=quantize
        )
        limit = min(one.model.max_len for one in configs)
        model = dataclasses.replace(configs[0].model, max_len=limit)
        config = dataclasses.replace(configs[0], model=model)
        return cls(loaded, codec, config, "; ".join(words))

    def __call__(self, text: str) -> str:
        """Translate one text."""
        if not isinstance(text, str):
            raise BadInput(f"expected one text, found {text!r}: translate() takes several")
        return self.translate([text])[0].text

    def translate(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        batch: int | None = None,
        split: bool = True,
        align: bool = False,
        **settings: Any,
    ) -> Translations:
        """Translate many texts; `settings` are those of SearchConfig: beam, alpha, nbest and so on.

        The sentences of a text are translated one by one and joined: models are trained on single
        sentences and drop the others. Candidate k joins the k-th best translations of the
        sentences, and its score is their sum. `split=False` translates each text whole, as a test
        set is scored.

        With `prefixes`, the translation of each text begins with its prefix; a text whose prefix
        has several sentences is translated whole. With `align`, candidates tell which of their
        words translate which. The result is a list, which a notebook shows as a table.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise BadInput(f"expected a list of texts, found {texts!r:.60}")
        if prefixes is not None and len(prefixes) != len(texts):
            raise BadInput(
                f"{len(prefixes):,} prefixes for {len(texts):,} texts: expected one each"
            )
        return Translations(
            self.stream(texts, prefixes=prefixes, batch=batch, split=split, align=align, **settings)
        )

    def stream(
        self,
        texts: Iterable[str],
        *,
        prefixes: Iterable[str] | None = None,
        batch: int | None = None,
        window: int = WINDOW,
        ready: Callable[[], bool] = lambda: True,
        split: bool = True,
        align: bool = False,
        advance: Callable[[int], None] = lambda done: None,
        **settings: Any,
    ) -> Iterator[Translation]:
        """Translate any number of texts, in order, holding a window of them in memory.

        `batch` is the number of sentences searched side by side (by default what suits the
        engine), `window` the number of batches read ahead; neither changes a translation. `ready`
        tells whether another text can be had without waiting: where not, those that have come are
        translated at once. `advance` hears how many texts are done. The rest is as in `translate`.
        """
        config = self.config.search.replace(**settings)
        if not config.sample and config != config.replace(**OF_DRAWS):
            raise BadInput(f"{', '.join(OF_DRAWS)} are of draws: they need sample=True")
        batch = self.engine.batch if batch is None else batch
        if batch < 1:
            raise BadInput(f"batch = {batch}: expected at least 1 sentence")
        forced = itertools.repeat(None) if prefixes is None else iter(prefixes)
        first = 0
        for block in blocks(texts, window * batch, ready):
            begins = list(itertools.islice(forced, len(block)))
            if len(begins) < len(block):
                raise BadInput(
                    f"there are {first + len(begins):,} prefixes but more texts: expected one each"
                )
            works = self.works(block, begins, first, split=split)
            self._search(works, config, batch, advance)
            aligned = self._aligned(works, batch) if align else itertools.repeat(None)
            for work, of_ranks in zip(works, aligned, strict=False):
                yield self._translation(work, of_ranks)
            first += len(block)

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        first: int = 1,
        align: bool = False,
        **settings: Any,
    ) -> list[Candidate]:
        """Score given translations, as the search would have; `first` numbers the first pair.

        Each pair is scored whole, even if it has several sentences: nothing tells which sentence
        of a translation belongs to which of the text.
        """
        config = self.config.search.replace(**settings)
        encoded = [
            (self._ids(source, self.codec.source), self._ids(target, self.codec.target))
            for source, target in pairs
        ]
        limit = self.config.model.max_len
        for number, both in enumerate(encoded, start=first):
            if max(map(len, both)) > limit:
                raise BadInput(
                    f"pair {number:,} has {max(map(len, both)):,} subwords on a side: "
                    f"the model scores at most {limit:,}"
                )
        works = [Work(source, [], []) for source, _ in pairs]
        order = sorted(range(len(pairs)), key=lambda i: sum(map(len, encoded[i])))
        for some in _batched(order, 32):
            scores = self.engine.score([encoded[i] for i in some])
            for i, of_tokens in zip(some, scores, strict=True):
                source, target = (ids[:-1].tolist() for ids in encoded[i])
                works[i].parts.append(Part(source))
                works[i].found.append([Hypothesis.of(target, sum(of_tokens), config)])
        aligned = self._aligned(works, 32) if align else itertools.repeat(None)
        return [
            self._translation(work, of_ranks).candidates[0]
            for work, of_ranks in zip(works, aligned, strict=False)
        ]

    def works(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str | None] | None = None,
        first: int = 0,
        *,
        split: bool,
    ) -> list["Work"]:
        """Make texts ready to be searched: encoded, in parts; a blank one has none."""
        prefixes = [None] * len(texts) if prefixes is None else prefixes
        split = split and splitter_ready()
        units = [
            self._units(one_line(text), prefix, split=split)
            for text, prefix in zip(texts, prefixes, strict=True)
        ]
        subwords, limit = self.codec.source, self.config.model.max_len - 1
        encoded = iter(subwords.encode_batch([one for own in units for _, one in own]))
        found = []
        for number, (text, prefix, own) in enumerate(zip(texts, prefixes, units, strict=True)):
            parts = [
                Part(piece, gap, begins=place == 0)
                for gap, _ in own
                for place, piece in enumerate(cut(next(encoded), limit, subwords))
            ]
            forced = self._forced(prefix, first + number) if prefix else []
            spoken = [sentence for _, sentence in own]
            found.append(Work(text, parts, [[] for _ in parts], forced, first + number, spoken))
        return found

    def segments(self, work: "Work") -> list[Segment]:
        """Return the sentences of a text that was searched, each with its translations.

        What stands before them and the best of each, one after the other, are the text's best.
        """
        before = gaps(work.parts, self.config.languages[1])
        begins = [place for place, part in enumerate(work.parts) if part.begins]
        found = []
        ends = itertools.pairwise([*begins, len(work.parts)])
        for sentence, (begin, end) in zip(work.sentences, ends, strict=True):
            places = range(begin, end)
            ranks = min(len(work.found[place]) for place in places)
            candidates = [self._candidate(work, places, rank, before) for rank in range(ranks)]
            found.append(Segment(before[begin], sentence, tuple(candidates)))
        return found

    def _units(self, text: str, prefix: str | None, *, split: bool) -> list[tuple[str, str]]:
        """Return what is encoded by itself, each after the white space before it.

        A prefix of several sentences translates several of the text's, so the text stays whole.
        """
        source, target = self.config.languages
        if split and (prefix is None or len(split_line(one_line(prefix), target)) <= 1):
            return split_line(text, source)
        return [("", text)] if text.strip() else []

    def _forced(self, prefix: str, number: int) -> list[int]:
        """Return the tokens of a prefix."""
        forced = self.codec.target.encode(one_line(prefix))
        room = self.config.model.max_positions - 2
        if len(forced) > room:
            raise BadInput(
                f"the prefix of text {number + 1:,} has {len(forced):,} subwords: "
                f"the model writes at most {room:,}"
            )
        if not {*forced}.isdisjoint(self.forbidden):
            raise BadInput(
                f"the prefix of text {number + 1:,} has characters that the model cannot write"
            )
        return forced

    def _search(
        self,
        works: Sequence["Work"],
        config: SearchConfig,
        batch: int,
        advance: Callable[[int], None],
    ) -> None:
        """Search the parts of some texts, similar lengths side by side."""
        places = [(work, part) for work in works for part in range(len(work.parts))]
        places.sort(key=lambda place: -len(place[0].parts[place[1]].ids))
        jobs = [work.job(part) for work, part in places]
        advance(sum(not work.parts for work in works))
        for place, best in self.engine.search(jobs, config, batch) if jobs else ():
            work, part = places[place]
            work.found[part] = best
            advance(int(part == 0))

    def _aligned(self, works: Sequence["Work"], batch: int) -> Iterator[list[Links]]:
        """Yield the links between the words of each text and those of each of its candidates."""
        pairs = (pair for work in works for rank in range(work.ranks) for pair in work.pairs(rank))
        matrices = itertools.chain.from_iterable(map(self.engine.align, _batched(pairs, batch)))
        for work in works:
            source = source_words(work.parts, self.codec.source)
            before = gaps(work.parts, self.config.languages[1])
            of_ranks = []
            for rank in range(work.ranks):
                outputs = [self.codec.target.piece_bytes(best[rank].tokens) for best in work.found]
                target = words_of(outputs, before)
                own = itertools.islice(matrices, len(work.parts))
                found = itertools.chain.from_iterable(map(links, own, source, target))
                of_ranks.append(tuple(sorted(set(found), key=lambda link: link[::-1])))
            yield of_ranks

    def _translation(self, work: "Work", aligned: Sequence[Links] | None) -> Translation:
        """Put the parts of a text together again."""
        before = gaps(work.parts, self.config.languages[1])
        everything = range(len(work.parts))
        candidates = [
            self._candidate(work, everything, rank, before, aligned[rank] if aligned else None)
            for rank in range(work.ranks)
        ]
        is_cut = not all(part.begins for part in work.parts)
        return Translation(work.text, tuple(candidates), max(1, len(work.parts)), is_cut)

    def _candidate(
        self,
        work: "Work",
        places: range,
        rank: int,
        before: Sequence[str],
        alignment: Links | None = None,
    ) -> Candidate:
        """Put some neighbouring parts together, with what stands before each but the first."""
        chosen = [work.found[place][rank] for place in places]
        texts = [self.codec.target.decode(one.tokens) for one in chosen]
        if len(work.parts) > 1:
            texts = [text.strip() for text in texts]
        between = ["", *(before[place] for place in places[1:])]
        return Candidate(
            "".join(itertools.chain.from_iterable(zip(between, texts, strict=False))),
            sum((one.score for one in chosen), 0.0),
            sum((one.log_probability for one in chosen), 0.0),
            tuple(p for one in chosen for p in self.codec.target.pieces(one.tokens)),
            alignment,
        )

    @staticmethod
    def _ids(text: str, subwords: Coder) -> Ints:
        return np.array([*subwords.encode(one_line(text)), EOS])


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """A text on its way."""

    text: str
    parts: list[Part]
    found: list[list[Hypothesis]]  # of each part, best first
    forced: Sequence[int] = ()  # tokens that its translation begins with
    number: int = 0
    sentences: Sequence[str] = ()  # each is one part, or several where it was cut

    @property
    def ranks(self) -> int:
        """How many candidates it has; a blank text has one, a blank one."""
        return min(map(len, self.found), default=1)

    def job(self, part: int) -> Job:
        """Return what to search for one part."""
        source = np.array([*self.parts[part].ids, EOS])
        return Job(source, () if part else self.forced, (self.number, part))

    def pairs(self, rank: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the tokens of each part and of its output of this rank, </s> last."""
        for part, best in zip(self.parts, self.found, strict=True):
            yield np.array([*part.ids, EOS]), np.array([*best[rank].tokens, EOS])


def blocks(texts: Iterable[str], most: int, ready: Callable[[], bool]) -> Iterator[list[str]]:
    """Yield texts in blocks: a full one, or what has come where no other is ready."""
    block: list[str] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text)
        if len(block) >= most or characters >= CHARACTERS or not ready():
            yield block
            block, characters = [], 0
    if block:
        yield block


def one_line(text: str) -> str:
    """Take line breaks out of a text, whatever character makes them."""
    return " ".join(text.splitlines())


def _batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    return iter(lambda: list(itertools.islice(rest, size)), [])
