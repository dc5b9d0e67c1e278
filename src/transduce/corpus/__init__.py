"""From text to memory-mapped token files. Imports no torch."""
