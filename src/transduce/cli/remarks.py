"""What `transduce translate` says of its outputs: cut lines, spans, terms, doubtful ones."""

from collections import Counter

from transduce.runs.folder import RunConfig
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.translation.translation import Translation

SHOWN = 3  # examples of each
REMARKS = {
    "aligned": "with spans that the model did not copy, placed by word alignment",
    "changed": "with spans that are repeated, in another order, or joined with a letter or digit",
    "lost": "without the translation of a term",
    "flagged": "flagged by the guard",
}


class Remarks:
    """Counts the translations that are worth a look, with a few examples."""

    def __init__(self, unit: str, longest: int, *, split: bool) -> None:
        """Count lines or texts; `longest` is the number of subwords that the model reads."""
        self.unit, self.longest, self.split = unit, longest, split
        self.cut = 0
        self.counts = Counter[str]()
        self.remembered = 0
        self.examples: dict[str, list[str]] = {name: [] for name in REMARKS}

    def add(self, translation: Translation) -> None:
        """Count a translation."""
        self.cut += translation.cut
        self.remembered += bool(translation.memory)
        aligned = [span.text for span in translation.spans if span.placed == "aligned"]
        changed = [span.text for span in translation.spans if span.is_doubtful]
        lost = [f"{term.source} = {term.target}" for term in translation.terms if not term.found]
        flags = [f"{flag.kind}, {flag.detail}" for flag in translation.flags]
        for name, details in zip(REMARKS, (aligned, changed, lost, flags), strict=True):
            if details:
                self.counts[name] += 1
                if len(self.examples[name]) < SHOWN:
                    self.examples[name].append(f"{translation.text:.60} ({details[0]:.60})")

    def report(self, progress: Progress) -> None:
        """Print the counts, each with its first examples."""
        if self.cut:
            progress.say(
                f"{pluralize(self.cut, self.unit)} {'was' if self.cut == 1 else 'were'} longer "
                f"than the model's {self.longest:,} subwords: cut, translated in parts and joined"
                + ("" if self.split else "; without --no-split, sentences are kept together")
            )
        if self.remembered:
            progress.say(f"{pluralize(self.remembered, self.unit)} translated with the memory")
        for name, remark in REMARKS.items():
            if count := self.counts[name]:
                progress.say(f"{pluralize(count, self.unit)} {remark}:")
                for example in self.examples[name]:
                    progress.say(f"  {example}")


def describe_zero_shot(config: RunConfig) -> str:
    """Warn about a pair that the model was not trained on, and name a way in two steps."""
    source, target = config.languages
    remark = f"the model was not trained on {source} to {target}: outputs may be in other languages"
    between = (right for left, right in config.all_pairs if left == source)
    middle = next((code for code in between if (code, target) in config.all_pairs), None)
    return remark if middle is None else f"{remark}. Translate to {middle}, and that to {target}"
