"""From text to memory-mapped token files, and which sentences form an update. Imports no torch.

inputs        the texts a corpus is made of, and whether they have changed
quality       warnings about copies, repeats and leaked validation pairs
encoding      pairs of sentences to token files
token_files   the files of a corpus, and opening them
preparation   from text to a corpus: `prepare`
updates       which sentences form an update
"""
