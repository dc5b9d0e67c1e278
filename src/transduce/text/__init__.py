"""Reading text: plain, compressed, TSV and standard input; splitting it into sentences.

reading       lines and pairs of lines
compression   gz, xz and zst
unsupported   recognising other document formats, to refuse them
languages     language codes from file names
splitting     splitting paragraphs into sentences
"""
