"""Starting from a trained run: its subwords and weights, and rows for added subwords."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from transduce.errors import BadSetting
from transduce.runs.folder import SUBWORDS, Origin, RunConfig, weights_file
from transduce.settings.base import MAXIMUM
from transduce.subwords import Codec, Coder, Subwords, check_extensible, decompose_new_pieces
from transduce.system.files import sha256
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress

# The weights with one row per subword, by side. Tied matrices appear under one name only.
SOURCE_ROWS = ("source_embedding.matrix",)
TARGET_ROWS = ("target_embedding.matrix", "output", "logits_bias")


@dataclass(frozen=True)
class Start:
    """A trained run to start from: its subwords, and if `weights` also its model.

    `more` subwords are added, learned from the new text. The run is read only when needed: a
    resumed run has everything in its own folder.
    """

    run: Path
    weights: bool = True
    more: int = 0

    @classmethod
    def of(
        cls, start: str | Path | None, subwords_of: str | Path | None, more: int = 0
    ) -> "Start | None":
        """Return the run to start from, if one is given; refuse contradictory arguments."""
        if not 0 <= more <= (most := MAXIMUM["vocabulary"]):
            raise BadSetting(f"extend_vocabulary = {f'{more:,}':.60}: expected 0 to {most:,}")
        if more and start is None:
            raise BadSetting(
                f"extend_vocabulary = {more:,} adds subwords to those of a trained run: name it "
                "(--from RUN), or set vocabulary to learn new subwords"
            )
        if start is not None and subwords_of is not None:
            raise BadSetting(
                f"start and subwords_of are both given: start takes the subwords of {start}; "
                "leave out subwords_of"
            )
        run = start if start is not None else subwords_of
        return None if run is None else cls(Path(run), start is not None, more)

    @functools.cached_property
    def config(self) -> RunConfig:
        """The settings of the run."""
        config = RunConfig.load(self.run)
        config.require("translation", self.run)
        return config

    @functools.cached_property
    def codec(self) -> Codec:
        """The subwords of the run."""
        return Codec.load(self.config.verified(self.run, SUBWORDS))

    @property
    def path(self) -> Path:
        """The file with the run's weights."""
        return weights_file(self.run, self.config)[0]

    @functools.cached_property
    def origin(self) -> Origin:
        """The record of this run in the new run's config.json."""
        folder = str(self.run.resolve())
        if not self.weights:
            return Origin(run=folder, subwords=self.codec.sha256)
        path, description = weights_file(self.run, self.config)
        return Origin(
            run=folder,
            subwords=self.codec.sha256,
            weights=description,
            sha256=sha256(path),
            more=self.more,
        )

    def check(self) -> None:
        """Refuse a run without weights or subwords, or whose subwords cannot be extended."""
        self.origin  # noqa: B018  (reading it is the check)
        if self.more:
            check_extensible(self.codec, str(self.run))

    def require_same(self, run: Path, origin: Origin | None) -> None:
        """Refuse to resume a run that was started from something else."""
        part = "weights" if self.weights else "subwords"
        if origin is None or bool(origin.weights) != self.weights:
            raise BadSetting(
                f"{run} was not started with the {part} of another run, such as {self.run}: "
                "continue as before, or choose another folder"
            )
        if self.more != origin.more:
            raise _other_number(run, origin.more, self.more)
        if str(self.run.resolve()) == origin.run:
            return  # the origin may have been trained further; `run` has a copy of its weights
        if (self.origin.subwords, self.origin.sha256) != (origin.subwords, origin.sha256):
            raise BadSetting(
                f"{run} was started with the {part} of {origin.run}, not of {self.run}: "
                "continue with the same, or choose another folder"
            )


def _other_number(run: Path, more: int, given: int) -> BadSetting:
    began = pluralize(more, "more subword") if more else "the subwords as they were"
    same = f"--extend-vocabulary {more}" if more else "the same"
    return BadSetting(
        f"{run} was started with {began}, not with {given:,} more: continue with {same}, or choose "
        "another folder"
    )


def extend_rows(
    tensors: Mapping[str, Tensor], old: Codec, new: Codec, progress: Progress
) -> dict[str, Tensor]:
    """Add a row for each new subword: the mean of the rows for the subwords it consists of.

    All other weights are unchanged. Differs: the paper trains from random weights.
    """
    parts = {
        **dict.fromkeys(SOURCE_ROWS, _parts(old.source, new.source)),
        **dict.fromkeys(TARGET_ROWS, _parts(old.target, new.target)),
    }
    counts = {len(parts[name]) for name in (SOURCE_ROWS[0], TARGET_ROWS[0])}
    *fewer, most = sorted(counts)
    numbers = " and ".join([*(f"{count:,}" for count in fewer), pluralize(most, "new subword")])
    progress.say(
        f"{numbers}: the vector of each begins as the mean of those of its parts; "
        "all other weights are as they were"
    )
    return {name: _extended(tensor, parts.get(name, [])) for name, tensor in tensors.items()}


def _parts(old: Coder, new: Coder) -> list[list[int]]:
    assert isinstance(new, Subwords)
    return decompose_new_pieces(new, len(old))


def _extended(tensor: Tensor, parts: list[list[int]]) -> Tensor:
    """Add one row for each list of row indices: the mean of these rows."""
    if not parts:
        return tensor
    rows = [tensor[part].mean(0, keepdim=True) for part in parts]
    return torch.cat([tensor, *rows])
