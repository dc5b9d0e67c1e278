"""Automatic trees: parse raw text with several parsers, and keep the best trees (paper 6.3).

    FOLDER/
      manifest.json              the parsers, the texts and the search, which must stay the same
      blocks/0000000.json, …     the trees of 1,024 lines each, until all are parsed
      automatic.trees            the trees that are kept
      summary.json               the counts, the thresholds and the hash of automatic.trees

Each parser parses every sentence. Where their trees differ, the one with the highest probability
under all parsers together is taken. A block is complete or absent and does not depend on the
others, so an interruption changes no tree.

Differs: the trees of the paper were made by other kinds of parsers, with 17 million sentences.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from transduce.corpus.inputs import InputFile, require_rereadable
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun
from transduce.parsing.evaluation import TreeScore, score_tree, summarize
from transduce.parsing.parser import Parser
from transduce.parsing.raw_text import LeftOut, RawText, count_lines, read_texts, words_of
from transduce.parsing.selection import Floats, agreement, select
from transduce.parsing.sequences import replace_tags, to_symbols
from transduce.parsing.trees import Tree, normalize, parse_trees, read_trees
from transduce.runs.folder import RunConfig, weights_file
from transduce.system.files import (
    atomic_write,
    read_checksummed,
    remove_folder,
    remove_leftovers,
    require_regular,
    sha256,
    write_checksummed,
)
from transduce.system.formatting import pluralize
from transduce.system.locks import locked
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt

FORMAT = 1
BLOCK = 1_024  # lines; at most this many are parsed again after an interruption
MANIFEST, BLOCKS, TREES, SUMMARY = "manifest.json", "blocks", "automatic.trees", "summary.json"
OTHERWISE = "continue with the same, or choose another folder"
# The types of the fields of manifest.json.
MANIFEST_FIELDS = {
    "parsers": list[str],
    "beam": int,
    "most": int | None,
    "block": int,
    "lines": list[int],
    "inputs": list[dict[str, Any]],
}
# The types of the fields of a block. The lists have one entry per tree.
BLOCK_FIELDS = {
    "left_out": dict[str, int],
    "places": list[int],  # line numbers within the block, from 0
    "trees": list[str],
    "confidence": list[float],
    "agreement": list[float],
}


@dataclass(frozen=True, slots=True)
class Quality:
    """How good automatic trees are, where there are gold trees of the same sentences."""

    sentences: int
    f1: float  # with gold tags, as on the test trees


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of an automatic treebank, and where its thresholds lie."""

    lines: int
    blank: int
    too_long: int
    held_out: int  # equal to a sentence of the held-out trees
    parsed: int
    agreed: int  # sentences on which the parsers agree
    kept: int
    parsed_words: int
    kept_words: int
    confidence: float  # the lowest of a kept tree: the geometric mean probability of its symbols
    trees_sha256: str  # of automatic.trees
    quality: dict[str, Quality]  # of the trees kept, discarded and all; empty without gold trees

    @classmethod
    def from_json(cls, *, quality: dict[str, Any], **fields: Any) -> Self:
        """Make a summary from the fields in summary.json."""
        return cls(quality={name: Quality(**value) for name, value in quality.items()}, **fields)


@dataclass(frozen=True, kw_only=True)
class AutomaticTrees:
    """A folder in which raw text is parsed, and trees are selected."""

    folder: Path
    parsers: Sequence[Path]  # run folders; the parsers have the same subwords
    texts: Sequence[RawText]
    lines: int | None = None  # most lines to read; None: all
    beam: int
    keep: float  # share of the sentences on which the parsers agree
    agreement: float  # lowest F1 between two parsers' trees, from 0 to 1
    device: str = "auto"

    @property
    def trees(self) -> Path:
        """The file of kept trees."""
        return self.folder / TREES

    def run(self, held_out: Collection[str], progress: Progress | None = None) -> Summary:
        """Parse the texts and select trees, unless that is done; return the counts.

        `held_out` are the keys of sentences that are left out.
        """
        progress = progress or Silent()
        with signals_as_interrupt(), locked(self.folder):
            remove_leftovers(self.folder, BLOCKS)
            if (self.folder / SUMMARY).exists():
                if (self.folder / BLOCKS).exists():  # left by a killed process
                    remove_folder(self.folder / BLOCKS)
                return self._read_summary()
            lines = self._begin(progress)
            self._parse(lines, held_out, progress)
            summary = self._select(lines)
            write_checksummed(
                self.folder / SUMMARY, {"format": FORMAT, **dataclasses.asdict(summary)}
            )
            remove_folder(self.folder / BLOCKS)
        return summary

    def _read_summary(self) -> Summary:
        fields = read_checksummed(self.folder / SUMMARY, FORMAT, "a summary of automatic trees")
        fields.pop("format")
        try:
            summary = Summary.from_json(**fields)
        except TypeError as error:
            raise BadRun(f"{self.folder / SUMMARY} is damaged: {error}") from None
        if not require_regular(self.trees).exists() or sha256(self.trees) != summary.trees_sha256:
            raise BadRun(
                f"{self.trees} is damaged or missing: it is not the file that was written; delete "
                f"{self.folder} to parse the text again"
            )
        return summary

    def _begin(self, progress: Progress) -> list[int]:
        """Count the lines of each text and write the manifest, or compare with it."""
        path = self.folder / MANIFEST
        parsers = [sha256(weights_file(run, RunConfig.load(run))[0]) for run in self.parsers]
        files = [InputFile(text.path, str(text.path.resolve())) for text in self.texts]
        if not path.exists():
            require_rereadable((text.path for text in self.texts), "a text file")
            new: dict[str, Any] = {
                "format": FORMAT,
                "parsers": parsers,
                "beam": self.beam,
                "most": self.lines,
                "block": BLOCK,
                "lines": self._count_all(progress),
                "inputs": [dataclasses.asdict(file.to_record()) for file in files],
            }
            write_checksummed(path, new)
        manifest = read_checksummed(path, FORMAT, "automatic trees", MANIFEST_FIELDS)
        if manifest["parsers"] != parsers:
            raise BadRun(f"{self.folder} was started with other parsers: {OTHERWISE}")
        search = {"beam": self.beam, "most": self.lines, "block": BLOCK}
        if any(manifest[name] != value for name, value in search.items()):
            raise BadRun(
                f"{self.folder} was started with another beam than {self.beam}, another limit on "
                f"lines, or by another version of transduce: {OTHERWISE}"
            )
        records = [InputRecord(**record) for record in manifest["inputs"]]
        if len(records) != len(files) or not all(map(InputFile.matches, files, records)):
            raise BadRun(f"{self.folder} was started with other raw text: {OTHERWISE}")
        lines: list[int] = manifest["lines"]
        return lines

    def _count_all(self, progress: Progress) -> list[int]:
        """Return how many lines of each text to read."""
        counts: list[int] = []
        for text in self.texts:
            lines = count_lines(text.path, progress)
            left = lines if self.lines is None else self.lines - sum(counts)
            counts.append(min(lines, left))
        return counts

    def _blocks(self, lines: Sequence[int]) -> Iterator[tuple[int, Path]]:
        """Yield the number of lines and the file of each block."""
        total = sum(lines)
        for number, begin in enumerate(range(0, total, BLOCK)):
            yield min(BLOCK, total - begin), self.folder / BLOCKS / f"{number:07}.json"

    def _parse(self, lines: Sequence[int], held_out: Collection[str], progress: Progress) -> None:
        """Parse the blocks that are missing."""
        missing = [size for size, path in self._blocks(lines) if not path.exists()]
        if not missing:
            return
        parsers = [Parser.load(run, device=self.device) for run in self.parsers]
        together = parsers[0]
        if len(parsers) > 1:
            first, *others = self.parsers
            together = Parser.load(first, others=others, device=self.device)
        done = sum(lines) - sum(missing)
        progress.say(
            f"{pluralize(len(parsers), 'parser')} with beam {self.beam} "
            f"{'parses' if len(parsers) == 1 else 'parse'} {pluralize(sum(lines), 'line')} of text"
            + (f", from line {done + 1:,} on" if done else "")
        )
        texts = read_texts(self.texts)
        with progress.track("parsing raw text", sum(missing), "sentences") as advance:
            for size, path in self._blocks(lines):
                block = list(itertools.islice(texts, size))
                if not path.exists():
                    sentences = [words_of(*line, together, held_out) for line in block]
                    content = _parse_block(parsers, together, sentences, self.beam, advance)
                    write_checksummed(path, {"format": FORMAT, **content})

    def _select(self, lines: Sequence[int]) -> Summary:
        """Write the trees to keep; return the counts."""
        left_out: Counter[str] = Counter()
        columns: dict[str, list[Floats]] = {"confidence": [], "agreement": []}
        for _, path in self._blocks(lines):
            block = _read_block(path)
            left_out.update(block["left_out"])
            for name, values in columns.items():
                values.append(np.array(block[name], dtype=np.float64))
        confidence, agreed = (np.concatenate(columns[name]) for name in columns)
        kept = select(confidence, agreed, keep=self.keep, agreement=self.agreement)
        if not kept.any():
            raise BadInput(
                f"the parsers agree on none of {pluralize(len(kept), 'sentence')} to "
                f"{self.agreement:g}: expected raw text like the trees, parsers trained for "
                "longer, or a lower --agreement"
            )
        words: Counter[str] = Counter()
        scores: dict[str, list[TreeScore]] = {"kept": [], "discarded": []}
        numbered = zip(kept.tolist(), self._trees_with_gold(lines), strict=True)
        with (
            atomic_write(self.trees) as temporary,
            temporary.open("w", encoding="utf-8", newline="\n") as file,
        ):
            for keep, (tree, gold) in numbered:
                name = "kept" if keep else "discarded"
                if keep:
                    file.write(f"{tree}\n")
                words[name] += len(tree.leaves())
                if gold is not None:
                    tags = [leaf.label for leaf in gold.leaves()]
                    scores[name].append(score_tree(gold, replace_tags(tree, tags)))
        scores["all"] = [score for each in scores.values() for score in each]
        quality = {
            name: Quality(len(each), summarize(each).f1) for name, each in scores.items() if each
        }
        return Summary(
            lines=sum(lines),
            **{name: left_out[name] for name in ("blank", "too_long", "held_out")},
            parsed=len(kept),
            agreed=int((agreed >= self.agreement).sum()),
            kept=int(kept.sum()),
            parsed_words=words.total(),
            kept_words=words["kept"],
            confidence=math.exp(float(confidence[kept].min())),
            trees_sha256=sha256(self.trees),
            quality=quality,
        )

    def _trees_with_gold(self, lines: Sequence[int]) -> Iterator[tuple[Tree, Tree | None]]:
        """Yield each automatic tree, and the gold tree of the same sentence if there is one."""
        gold = itertools.chain.from_iterable(map(_gold_trees, self.texts, lines))
        for size, path in self._blocks(lines):
            block, answers = _read_block(path), list(itertools.islice(gold, size))
            trees = parse_trees(block["trees"], str(path)) if block["trees"] else iter(())
            for place, tree in zip(block["places"], trees, strict=True):
                yield tree, answers[place]


def _gold_trees(text: RawText, lines: int) -> Iterator[Tree | None]:
    if text.gold is None:
        return itertools.repeat(None, lines)
    return (normalize(tree) for tree in itertools.islice(read_trees(text.gold), lines))


def _read_block(path: Path) -> dict[str, Any]:
    block = read_checksummed(require_regular(path), FORMAT, "parsed text", BLOCK_FIELDS)
    if len({len(block[name]) for name in BLOCK_FIELDS if name != "left_out"}) != 1:
        raise BadRun(f"{path} is damaged: its lists differ in length; delete it to parse it again")
    return block


def _parse_block(
    parsers: Sequence[Parser],
    together: Parser,
    block: Sequence[list[str] | LeftOut],
    beam: int,
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """Parse the lines of a block with all parsers, and choose a tree for each sentence."""
    places = [place for place, words in enumerate(block) if isinstance(words, list)]
    sentences = [words for words in block if isinstance(words, list)]
    left_out = Counter(words for words in block if isinstance(words, str))
    advance(len(block) - len(sentences))
    parses = 0

    def count(done: int) -> None:
        nonlocal parses
        before, parses = parses // len(parsers), parses + done
        advance(parses // len(parsers) - before)

    found = [
        [tree for tree in parser.parse_words(sentences, advance=count, beam=beam) if tree]
        for parser in parsers
    ]
    candidates = [list(trees) for trees in zip(*found, strict=True)]
    trees, confidence = _most_probable(together, sentences, candidates)
    return {
        "left_out": dict(sorted(left_out.items())),
        "places": places,
        "trees": [str(tree) for tree in trees],
        "confidence": confidence,
        "agreement": [agreement(several) for several in candidates],
    }


def _most_probable(
    together: Parser, sentences: Sequence[list[str]], candidates: Sequence[Sequence[Tree]]
) -> tuple[list[Tree], list[float]]:
    """Return the most probable tree of each sentence under all parsers, and its confidence."""
    distinct = [list(dict.fromkeys(trees)) for trees in candidates]
    words = [words for words, trees in zip(sentences, distinct, strict=True) for _ in trees]
    means = iter(together.confidences(words, [tree for trees in distinct for tree in trees]))
    best: list[tuple[Tree, float]] = []
    for trees in distinct:
        scored = [(tree, next(means)) for tree in trees]
        # By the probability of the whole tree: candidates may differ in length.
        best.append(max(scored, key=lambda pair: pair[1] * _symbols(pair[0])))
    return [tree for tree, _ in best], [mean for _, mean in best]


def _symbols(tree: Tree) -> int:
    """Return the number of symbols of a tree, </s> included."""
    return len(to_symbols(tree)) + 1
