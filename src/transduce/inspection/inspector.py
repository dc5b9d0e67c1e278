"""What a model attends to while it writes a translation, and how sure it is of each piece.

S source and T target pieces, </s> of both counted; N layers, H heads. Layers and heads count from 0
here, and from 1 wherever people see them, as in the paper's figures.
"""

import base64
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch

from transduce.batching.packed import make_batch
from transduce.errors import BadInput
from transduce.model.attention_maps import attention_maps
from transduce.model.transformer import Transformer
from transduce.runs.folder import SUBWORDS, RunConfig
from transduce.subwords import EOS, UNK, Codec, Coder
from transduce.translation.alignment import NO_WORD, piece_words
from transduce.translation.engines.pytorch import TorchEngine, transformer
from transduce.translation.notebook import heatmap
from transduce.translation.segments import one_line
from transduce.translation.types import Ints, Job

MOST = 128  # pieces of a side: more cannot be looked at
ALTERNATIVES = 5  # pieces that are told for each step
WHOLE = 65_535  # what stands for 1.0 in JSON

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """One pair of sentences, seen through a model."""

    model: str  # its name
    languages: tuple[str, str]
    sentences: tuple[str, str]  # source and target as texts
    source: tuple[str, ...]  # its pieces, </s> last
    target: tuple[str, ...]  # what each step writes
    inputs: tuple[str, ...]  # what each step reads: <s>, then the target but for its </s>
    source_words: tuple[int, ...]  # which word each piece belongs to; </s> is a word of its own
    target_words: tuple[int, ...]
    spelled: tuple[tuple[str, ...], tuple[str, ...]]  # the words of both sides as texts
    probabilities: Floats  # (T,) of what is written
    alternatives: tuple[tuple[tuple[str, float], ...], ...]  # of each step, the likeliest first
    encoder: Floats  # (N, H, S, S)
    decoder: Floats  # (N, H, T, T): of the step that writes target[t] to inputs[k]
    cross: Floats  # (N, H, T, S): of the step that writes target[t] to source[s]

    def attention(self, kind: Kind) -> Floats:
        """Return the weights of one kind of attention. (N, H, queries, keys)."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what the last layer attends to in the source.

        `transduce.inspection.attention_map` shows any other layer, head and kind.
        """
        heads = self.cross.shape[1]
        about = (
            f"{self.model}: {' → '.join(self.sentences)}; each row: what the last layer, mean of "
            f"all {heads} heads, looks at in the source to write a piece"
        )
        return heatmap(self.cross[-1].mean(0), self.target, self.source, about)

    def to_json(self) -> dict[str, Any]:
        """Return all of it; weights as 16 bits each, 65,535 for 1, in base64."""
        return {
            "model": self.model,
            "languages": list(self.languages),
            "sentences": list(self.sentences),
            "source": list(self.source),
            "target": list(self.target),
            "inputs": list(self.inputs),
            "words": {"source": list(self.source_words), "target": list(self.target_words)},
            "spelled": {"source": list(self.spelled[0]), "target": list(self.spelled[1])},
            "probabilities": [_short(one) for one in self.probabilities],
            "alternatives": [
                [[piece, _short(one)] for piece, one in step] for step in self.alternatives
            ],
            "attention": {kind: _packed(self.attention(kind)) for kind in KINDS},
        }


class Inspector:
    """A model to look into.

    >>> Inspector.load("runs/en-de").inspect("Two dogs run.").cross[-1]
    """

    def __init__(self, engine: TorchEngine, codec: Codec, config: RunConfig, name: str) -> None:
        self.engine, self.codec, self.config, self.name = engine, codec, config, name
        self.forbidden = codec.target.forbidden_ids()

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

    @property
    def model(self) -> Transformer:
        """The model itself."""
        return transformer(self.engine.models[0])

    def inspect(self, source: str, target: str | None = None) -> Inspection:
        """Look at how a sentence is translated: as the search would, or as given."""
        return next(self.inspect_all([source], None if target is None else [target]))

    def read(self, source: str) -> Inspection:
        """Look at how a sentence is read, and write nothing: the target is </s> alone."""
        return self._look(self._tokens(source, self.codec.source, "sentence"), np.array([EOS]))

    def inspect_all(
        self, sources: Sequence[str], targets: Sequence[str] | None = None
    ) -> Iterator[Inspection]:
        """Look at many sentences, in order; those that need it are translated side by side."""
        read = [self._tokens(one, self.codec.source, "sentence") for one in sources]
        if targets is not None:
            given = [self._tokens(one, self.codec.target, "given translation") for one in targets]
            return itertools.starmap(self._look, zip(read, given, strict=True))
        return map(self._look, read, self._translated(read))

    def fits(self, source: str) -> bool:
        """Tell whether a sentence can be looked at: whether it has words, and not too many."""
        tokens = self.codec.source.encode(one_line(source))
        return bool(source.strip()) and len(tokens) < self._most

    @property
    def _most(self) -> int:
        return min(MOST, self.config.model.max_len)

    def _translated(self, sources: Sequence[Ints]) -> list[Ints]:
        jobs = [Job(source) for source in sources]
        settings = self.config.search.replace(nbest=1)
        found = dict(self.engine.search(jobs, settings, self.engine.batch))
        return [
            self._allowed(np.array([*found[index][0].tokens, EOS]), "translation")
            for index in range(len(jobs))
        ]

    def _tokens(self, text: str, subwords: Coder, what: str) -> Ints:
        if not text.strip():
            raise BadInput(f"the {what} is empty: expected some words")
        return self._allowed(np.array([*subwords.encode(one_line(text)), EOS]), what)

    def _allowed(self, tokens: Ints, what: str) -> Ints:
        if len(tokens) > self._most:
            raise BadInput(
                f"the {what} has {len(tokens):,} subwords, </s> counted: "
                f"at most {self._most:,} can be looked at"
            )
        return tokens

    @torch.inference_mode()
    def _look(self, source: Ints, target: Ints) -> Inspection:
        """Pass a pair through the model and keep the attention weights."""
        model, codec = self.model, self.codec
        batch = make_batch([(source, target)]).to(model.output.device)
        maps = attention_maps(model, batch)
        likely = model.logits(maps.output).float().softmax(-1)  # (T, V)
        probabilities = likely.gather(1, batch.labels[:, None]).flatten()
        likely[:, self.forbidden] = -1.0
        best, pieces = likely.topk(min(ALTERNATIVES, likely.size(1) - len(self.forbidden)))
        read, written = source.tolist(), target.tolist()
        of_source, of_target = _words(read, codec.source), _words(written, codec.target)
        return Inspection(
            model=self.name,
            languages=self.config.languages,
            sentences=(codec.source.decode(read), codec.target.decode(written)),
            source=tuple(codec.source.pieces(read)),
            target=tuple(codec.target.pieces(written)),
            inputs=tuple(codec.target.pieces(batch.target.tokens.tolist())),
            source_words=of_source,
            target_words=of_target,
            spelled=(
                _spelled(read, of_source, codec.source),
                _spelled(written, of_target, codec.target),
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
    """Tell for each token which word it belongs to, counted from 0; </s> is the last.

    White space by itself goes with the word after it, or else with the one before.
    """
    pieces = [
        "\N{REPLACEMENT CHARACTER}".encode() if token == UNK else raw
        for token, raw in zip(tokens, subwords.piece_bytes(tokens), strict=True)
    ]
    own = piece_words(pieces[:-1], _marks_apart)
    last = max(own, default=0)
    for place in reversed(range(len(own))):
        last = own[place] = last if own[place] == NO_WORD else own[place]
    found = itertools.groupby([*own, len(tokens)])
    return tuple(number for number, (_, same) in enumerate(found) for _ in same)


def _spelled(tokens: Sequence[int], words: Sequence[int], subwords: Coder) -> tuple[str, ...]:
    """Return words as texts, though their pieces may be parts of letters."""
    found = []
    for _, same in itertools.groupby(zip(words, tokens, strict=True), key=lambda one: one[0]):
        own = [token for _, token in same]
        text = "".join(subwords.pieces(own)) if {*own} & {EOS, UNK} else subwords.decode(own)
        found.append(text.strip())
    return tuple(found)


def _marks_apart(text: str) -> list[int]:
    """Tell the word of each letter; marks at both ends of what stands between spaces are words.

    So the full stop of a sentence is no part of its last word, and "don't" is one word.
    """
    found = [NO_WORD] * len(text)
    number = itertools.count()
    is_mark = _are_marks(text)
    for match in re.finditer(r"\S+", text):
        begin, end = match.span()
        inner = [place for place in range(begin, end) if not is_mark[place]]
        first, behind = (inner[0], inner[-1] + 1) if inner else (end, end)
        for part in ((begin, first), (first, behind), (behind, end)):
            if part[0] < part[1]:
                found[slice(*part)] = [next(number)] * (part[1] - part[0])
    return found


def _are_marks(text: str) -> list[bool]:
    """Tell which letters are punctuation or symbols; accents go with what they stand on."""
    found: list[bool] = []
    for letter in text:
        category = unicodedata.category(letter)
        joined = category[0] == "M" or category == "Cf"
        found.append(found[-1] if joined and found else category[0] in "PS")
    return found


def _packed(weights: Floats) -> dict[str, Any]:
    whole = np.rint(weights * np.float32(WHOLE)).clip(0, WHOLE).astype("<u2")
    data = base64.b64encode(np.ascontiguousarray(whole).tobytes()).decode()
    return {"shape": list(weights.shape), "data": data}


def _short(probability: float) -> float:
    """Leave the digits of a probability that people may want."""
    return float(f"{probability:.4g}")
