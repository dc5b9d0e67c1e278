"""Data sets by name: a catalogue, downloads that resume, and texts that are ready to train on."""

from transduce.data.getting import Got, get, refuse_foreign, resolve

__all__ = ["Got", "get", "refuse_foreign", "resolve"]
