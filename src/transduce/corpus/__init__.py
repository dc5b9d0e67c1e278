"""From text to memory-mapped token files, and which sentences form an update. Imports no torch.

inputs        the texts that a corpus is made from, and whether they have changed
quality       warnings about copies, repeats and leaked validation pairs
languages     warnings about text in other languages than stated
scanning      the first pass: counts, problems, pairs to hold out
learning      learning subwords from the texts
encoding      encoding pairs of sentences into token files
token_files   the files of a corpus, and opening them
building      filling the folder of a corpus
preparation   from text to a corpus: `prepare`
updates       which sentences form an update
bpe_dropout   the training text in other subwords in every epoch
"""
