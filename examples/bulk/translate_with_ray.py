"""Translate a file with Ray Data: `transduce translate` of its lines, in several workers.

    pip install 'transduce[ray]'
    python translate_with_ray.py runs/en-de web.en.xz web.de --workers 2

Each worker loads the model once. On a cluster (`ray job submit`, or `RAY_ADDRESS`), workers run on
all of its machines; the run folder must have the same path on each of them, the text only here.
`TranslateLines` also fits a data set of your own with a column `text`:

    ray.data.read_parquet("s3://…").map_batches(TranslateLines, fn_constructor_args=("runs/en-de",),
        compute=ray.data.ActorPoolStrategy(size=8), num_gpus=1, batch_size=4096)
"""

import argparse
import itertools
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
import ray.data

from transduce import Translator
from transduce.text.reading import read_lines

BLOCK = 10_000  # lines that are sent to Ray at once


class TranslateLines:
    """A worker: adds the column `translation` to batches with a column `text`."""

    def __init__(self, run: str) -> None:
        self.translator = Translator.load(run)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Translate a batch."""
        translations = self.translator.translate(batch["text"].to_pylist())
        return batch.append_column("translation", pa.array([t.text for t in translations]))


def send(source: str) -> list[Any]:
    """Send the numbered lines of a file to Ray, which stores them on disk if memory is short."""
    lines = enumerate(read_lines(source))
    blocks = []
    while block := list(itertools.islice(lines, BLOCK)):
        numbers, texts = zip(*block, strict=True)
        blocks.append(ray.put(pa.table({"line": numbers, "text": texts})))
    return blocks


def main() -> None:
    """Translate the lines of a file in their order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run")
    parser.add_argument("source", help="a text file; it may be compressed")
    parser.add_argument("out", type=Path, help="a new file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpus", type=float, default=0, help="of each worker")
    parser.add_argument("--cpus", type=float, default=1, help="of each worker")
    parser.add_argument("--batch", type=int, default=1024, help="lines of a batch")
    given = parser.parse_args()
    if given.out.exists():
        parser.error(f"{given.out} exists: choose another name")

    ray.init()
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    translated = ray.data.from_arrow_refs(send(given.source)).map_batches(
        TranslateLines,
        fn_constructor_args=(str(Path(given.run).resolve()),),
        compute=ray.data.ActorPoolStrategy(size=given.workers),
        batch_format="pyarrow",
        batch_size=given.batch,
        num_gpus=given.gpus,
        num_cpus=given.cpus,
    )
    unfinished = given.out.with_name(given.out.name + ".unfinished")
    with unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for number, row in enumerate(translated.iter_rows()):
            assert row["line"] == number
            file.write(row["translation"] + "\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(given.out)


if __name__ == "__main__":
    main()
