"""The semi-supervised experiment in about a given time, on a GPU or a CPU."""

import dataclasses

from transduce.experiments.parser_experiment import ParserExperiment
from transduce.experiments.semi_supervised import RawOptions, SemiSupervised
from transduce.system.devices import choose_device

GOLD = 0.25
TRAINING_SHARE = 0.5  # of the time, divided among three parsers
PARSING_SHARE = 0.2
UNSEEN = {"cpu": 0.04, "cuda": 0.1}
# Raw sentences that two cores parse in a second with one parser of the preset parse-tiny.
CPU_RATE, CPU_BEAM, CPU_PRESET = 24.0, 4, "parse-tiny"
LEAST_LINES = 256


def within(base: ParserExperiment, seconds: float) -> SemiSupervised:
    """Return the experiment on a quarter of the trees; the words of the others are raw text.

    On a CPU, the parsers are small, the beam is too, and the raw text is limited. The scores of
    validation and test trees take a time of their own there, whatever `seconds` is. The same
    arguments give the same options, so that a later call continues.
    """
    kind = choose_device(base.device).type
    options = RawOptions(gold=GOLD, unseen=UNSEEN["cuda" if kind == "cuda" else "cpu"])
    each = max(1, int(seconds * TRAINING_SHARE / (options.parsers + 1)))
    base = dataclasses.replace(base, settings={"seconds": f"{each}"} | dict(base.settings))
    if kind != "cuda":
        lines = int(seconds * PARSING_SHARE * CPU_RATE / options.parsers)
        options = dataclasses.replace(options, lines=max(LEAST_LINES, lines))
        base = dataclasses.replace(base, preset=CPU_PRESET, beam=base.beam or CPU_BEAM)
    return SemiSupervised(base=base, raw=options)
