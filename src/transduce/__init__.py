"""The Transformer of "Attention Is All You Need" as a system: two text files in, a translator out."""
