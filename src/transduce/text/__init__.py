"""Reading text: plain, compressed, TSV and standard input; splitting lines into sentences."""
