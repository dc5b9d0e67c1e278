"""Documents of all formats with generated texts, and their comparison by independent readers.

- `author`: sentences and spans.
- `word_files`, `web_files`, `message_files`, `exchange_files`, `table_files`, `subtitle_files`:
  write documents; `word_reading` and the other readers use libraries that are not ours.
- `fake`: a translator whose result is known. `reading`: what must be the same after it.
- `corpus`: the table of formats.
"""
