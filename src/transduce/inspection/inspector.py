"""The attention of a model while it translates a sentence, and the probability of each piece.

S source and T target pieces (subwords), including </s>; N layers, H heads. Layers and heads count
from 0 here, and from 1 in everything that is shown, as in the paper's figures.
"""

import base64
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from transduce.batching.packed import make_batch
from transduce.errors import BadInput
from transduce.inspection.matrices import KINDS, Floats, Kind
from transduce.model.attention_maps import attention_maps
from transduce.model.transformer import Transformer
from transduce.runs.folder import SUBWORDS, RunConfig
from transduce.subwords import EOS, UNK, Codec, Coder
from transduce.translation.alignment import NO_WORD, piece_words
from transduce.translation.engines.pytorch import TorchEngine, transformer
from transduce.translation.notebook import heatmap
from transduce.translation.segments import one_line
from transduce.translation.types import Ints, Job

MAX_PIECES = 128  # per side
ALTERNATIVES = 5  # most likely pieces per step
JSON_ONE = 65_535  # represents a weight of 1 in JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """The attention and probabilities of a model for one pair of sentences."""

    model: str  # its name
    languages: tuple[str, str]
    sentences: tuple[str, str]  # source and target as text
    source: tuple[str, ...]  # its pieces, </s> last
    target: tuple[str, ...]  # the piece that each step writes
    inputs: tuple[str, ...]  # the decoder's inputs: <s>, then the target without its </s>
    source_words: tuple[int, ...]  # the word of each piece; </s> is a separate word
    target_words: tuple[int, ...]
    spelled: tuple[tuple[str, ...], tuple[str, ...]]  # the words of both sides
    probabilities: Floats  # (T,) of the target pieces
    alternatives: tuple[tuple[tuple[str, float], ...], ...]  # per step, the most likely first
    encoder: Floats  # (N, H, S, S)
    decoder: Floats  # (N, H, T, T): from the step that writes target[t] to inputs[k]
    cross: Floats  # (N, H, T, S): from the step that writes target[t] to source[s]

    def attention(self, kind: Kind) -> Floats:
        """Return the weights of one kind of attention. (N, H, queries, keys)."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the last layer's attention to the source.

        `transduce.inspection.attention_map` shows other layers, heads and kinds.
        """
        heads = self.cross.shape[1]
        about = (
            f"{self.model}: {' → '.join(self.sentences)}; each row: what the last layer, mean of "
            f"all {heads} heads, looks at in the source to write a piece"
        )
        return heatmap(self.cross[-1].mean(0), self.target, self.source, about)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; weights are base64 of 16-bit integers, where 65,535 means 1."""
        return {
            "model": self.model,
            "languages": list(self.languages),
            "sentences": list(self.sentences),
            "source": list(self.source),
            "target": list(self.target),
            "inputs": list(self.inputs),
            "words": {"source": list(self.source_words), "target": list(self.target_words)},
            "spelled": {"source": list(self.spelled[0]), "target": list(self.spelled[1])},
            "probabilities": [_rounded(probability) for probability in self.probabilities],
            "alternatives": [
                [[piece, _rounded(probability)] for piece, probability in step]
                for step in self.alternatives
            ],
            "attention": {kind: _packed(self.attention(kind)) for kind in KINDS},
        }


class Inspector:
    """A trained model whose attention can be inspected.

    >>> Inspector.load("runs/en-de").inspect("Two dogs run.").cross[-1]
    """

    def __init__(
        self,
        engine: TorchEngine,
        codec: Codec,
        config: RunConfig,
        name: str,
        *,
        directed: bool | None = None,
    ) -> None:
        self.engine, self.codec, self.config, self.name = engine, codec, config, name
        self.forbidden = codec.target.forbidden_ids()
        self._directed = len(config.targets) == 1 if directed is None else directed

    @classmethod
    def load(cls, run: str | Path, *, device: str = "cpu") -> Self:
        """Load the model of a run folder."""
        run = Path(run)
        config = RunConfig.load(run)
        config.require("translation", run)
        codec = Codec.load(config.verified(run, SUBWORDS))
        config.require_subwords(len(codec.source), len(codec.target), run)
        engine = TorchEngine.load([run], [config], codec.target.forbidden_ids(), device)
        return cls(engine, codec, config, run.resolve().name)

    def directed(self, *, to: str | None = None, source: str | None = None) -> Self:
        """Return the inspector of one target language; a model of several pairs needs `to`."""
        if self._directed and to is None and source is None:
            return self
        config = self.config.directed(to, source)
        return type(self)(self.engine, self.codec, config, self.name, directed=True)

    @property
    def model(self) -> Transformer:
        """The model."""
        return transformer(self.engine.models[0])

    def inspect(self, source: str, target: str | None = None) -> Inspection:
        """Inspect how a sentence is translated: by beam search, or as `target`."""
        return next(self.inspect_all([source], None if target is None else [target]))

    def read(self, source: str) -> Inspection:
        """Inspect how a sentence is encoded; the target is only </s>."""
        return self._inspect(self._encode_source(source), np.array([EOS]))

    def inspect_all(
        self, sources: Sequence[str], targets: Sequence[str] | None = None
    ) -> Iterator[Inspection]:
        """Inspect many sentences, in order; without `targets`, they are translated in batches."""
        encoded = [self._encode_source(source) for source in sources]
        if targets is None:
            return map(self._inspect, encoded, self._translate(encoded))
        given = [self._encode(target, self.codec.target, "given translation") for target in targets]
        return itertools.starmap(self._inspect, zip(encoded, given, strict=True))

    def fits(self, source: str) -> bool:
        """Return whether a sentence can be inspected: it has words, and not too many."""
        tokens = self.codec.source.encode(one_line(source))
        return bool(source.strip()) and len(tokens) < self._max_pieces

    @property
    def _max_pieces(self) -> int:
        return min(MAX_PIECES, self.config.model.max_len)

    def _translate(self, sources: Sequence[Ints]) -> list[Ints]:
        jobs = [Job(source) for source in sources]
        settings = self.config.search.replace(nbest=1)
        hypotheses = dict(self.engine.search(jobs, settings, self.engine.batch))
        return [
            self._checked(np.array([*hypotheses[index][0].tokens, EOS]), "translation")
            for index in range(len(jobs))
        ]

    def _encode_source(self, text: str) -> Ints:
        coder, language = self.codec.source, self.directed().config.languages[1]
        return self._encode(text, coder, "sentence", coder.language_ids(language))

    def _encode(self, text: str, subwords: Coder, what: str, language: Sequence[int] = ()) -> Ints:
        if not text.strip():
            raise BadInput(f"the {what} is empty: expected some words")
        tokens = np.array([*language, *subwords.encode(one_line(text)), EOS])
        return self._checked(tokens, what)

    def _checked(self, tokens: Ints, what: str) -> Ints:
        if len(tokens) > self._max_pieces:
            raise BadInput(
                f"the {what} has {len(tokens):,} subwords, including </s>: "
                f"at most {self._max_pieces:,} can be inspected"
            )
        return tokens

    @torch.inference_mode()
    def _inspect(self, source: Ints, target: Ints) -> Inspection:
        """Pass a pair through the model and keep the attention weights."""
        model, codec = self.model, self.codec
        batch = make_batch([(source, target)]).to(model.output.device)
        maps = attention_maps(model, batch)
        p = model.logits(maps.output).float().softmax(-1)  # (T, V)
        probabilities = p.gather(1, batch.labels[:, None]).flatten()
        p[:, self.forbidden] = -1.0
        best, pieces = p.topk(min(ALTERNATIVES, p.size(1) - len(self.forbidden)))
        source_ids, target_ids = source.tolist(), target.tolist()
        source_words = _words(source_ids, codec.source)
        target_words = _words(target_ids, codec.target)
        return Inspection(
            model=self.name,
            languages=self.config.languages,
            sentences=(codec.source.decode(source_ids), codec.target.decode(target_ids)),
            source=tuple(codec.source.pieces(source_ids)),
            target=tuple(codec.target.pieces(target_ids)),
            inputs=tuple(codec.target.pieces(batch.target.tokens.tolist())),
            source_words=source_words,
            target_words=target_words,
            spelled=(
                _spell_words(source_ids, source_words, codec.source),
                _spell_words(target_ids, target_words, codec.target),
            ),
            probabilities=probabilities.cpu().numpy(),
            alternatives=tuple(
                tuple(zip(codec.target.pieces(step), values, strict=True))
                for step, values in zip(pieces.tolist(), best.tolist(), strict=True)
            ),
            encoder=maps.encoder.float().cpu().numpy(),
            decoder=maps.decoder.float().cpu().numpy(),
            cross=maps.cross.float().cpu().numpy(),
        )


def _words(tokens: Sequence[int], subwords: Coder) -> tuple[int, ...]:
    """Return the word of each token, counted from 0; </s> is the last. A tag is a word.

    A token of white space belongs to the word after it or, at the end, to the one before.
    """
    pieces = [
        "\N{REPLACEMENT CHARACTER}".encode() if token == UNK else raw
        for token, raw in zip(tokens, subwords.piece_bytes(tokens), strict=True)
    ]
    words = piece_words(pieces[:-1], _word_of_each_letter)
    next_word = max(words, default=0)
    for index in reversed(range(len(words))):
        next_word = words[index] = next_word if words[index] == NO_WORD else words[index]
    is_tag = [token >= subwords.first_tag for token in tokens[:-1]]
    groups = itertools.groupby([*zip(is_tag, words, strict=True), len(tokens)])
    return tuple(number for number, (_, group) in enumerate(groups) for _ in group)


def _spell_words(tokens: Sequence[int], words: Sequence[int], subwords: Coder) -> tuple[str, ...]:
    """Return the text of each word; a single piece may be only part of a letter."""
    texts = []
    for _, group in itertools.groupby(zip(words, tokens, strict=True), key=lambda pair: pair[0]):
        ids = [token for _, token in group]
        named = not {EOS, UNK}.isdisjoint(ids) or ids[0] >= subwords.first_tag
        text = "".join(subwords.pieces(ids)) if named else subwords.decode(ids)
        texts.append(text.strip())
    return tuple(texts)


def _word_of_each_letter(text: str) -> list[int]:
    """Return the word of each letter; punctuation at either end of a word is a separate word.

    So the full stop does not belong to the last word of a sentence, and "don't" is one word.
    """
    words = [NO_WORD] * len(text)
    number = itertools.count()
    is_mark = _are_marks(text)
    for match in re.finditer(r"\S+", text):
        begin, end = match.span()
        letters = [index for index in range(begin, end) if not is_mark[index]]
        first, past = (letters[0], letters[-1] + 1) if letters else (end, end)
        for start, stop in ((begin, first), (first, past), (past, end)):
            if start < stop:
                words[start:stop] = [next(number)] * (stop - start)
    return words


def _are_marks(text: str) -> list[bool]:
    """Return which letters are punctuation or symbols; accents count as the letter before them."""
    marks: list[bool] = []
    for letter in text:
        category = unicodedata.category(letter)
        combining = category[0] == "M" or category == "Cf"
        marks.append(marks[-1] if combining and marks else category[0] in "PS")
    return marks


def _packed(weights: Floats) -> dict[str, Any]:
    integers = np.rint(weights * np.float32(JSON_ONE)).clip(0, JSON_ONE).astype("<u2")
    data = base64.b64encode(np.ascontiguousarray(integers).tobytes()).decode()
    return {"shape": list(weights.shape), "data": data}


def _rounded(probability: float) -> float:
    return float(f"{probability:.4g}")
