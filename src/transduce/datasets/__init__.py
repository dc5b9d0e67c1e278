"""Data sets by name: a catalogue, downloads that resume, and texts that are ready to train on."""

from transduce.datasets.folders import refuse_foreign
from transduce.datasets.getting import Got, get, resolve

__all__ = ["Got", "get", "refuse_foreign", "resolve"]
