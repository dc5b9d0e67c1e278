"""Reading text: plain, compressed, TSV and standard input; splitting it into sentences.

reading       lines and pairs of lines
memories      pairs from TMX and XLIFF
tables        pairs from CSV, and from TSV with named columns
compression   gz, xz and zst
unsupported   recognising other document formats, to refuse them
languages     language codes from file names
corpora       parallel texts to train on, and their weights
splitting     splitting paragraphs into sentences
"""
