"""Sentinels and term markers in exports."""

from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, threads_kept

from transduce.config import SearchConfig
from transduce.interop.export import huggingface
from transduce.interop.importing import import_model
from transduce.subwords import EOS, SENTINELS, TERM_MARKERS
from transduce.system.files import read_json
from transduce.training.train import train
from transduce.translation.translator import Translator
from transduce.translation.types import Job

TEXT = "a dog sees the tree <|1|>."


@pytest.fixture(scope="module", params=["true", "false"], ids=["joint", "separate"])
def marked_run(
    request: pytest.FixtureRequest,
    tiny_files: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    with threads_kept():
        return train(
            *tiny_files,
            out=tmp_path_factory.mktemp("marked") / "run",
            preset="tiny",
            settings=TINY
            | {"steps": "5", "joint": request.param, "spans": "0.5", "terms": "0.5", "tie": "none"},
            device="cpu",
        )


def test_ctranslate2_reads_markers_as_torch_does(marked_run: Path) -> None:
    pytest.importorskip("ctranslate2")
    ours, theirs = (
        Translator.load(marked_run, device="cpu", engine=engine)
        for engine in ("torch", "ctranslate2")
    )
    source = ours.codec.source
    assert source.term_markers is not None
    term, translated, end = source.term_markers
    parts: list[str | int]
    parts = ["a", term, " dog", translated, " Hund", end, " sees ", source.sentinels[3], "."]
    jobs = [Job(np.array([*ids, EOS])) for ids in source.encode_parts([parts, [TEXT]])]
    settings = SearchConfig(beam=1, extra=5)
    outputs = [
        [dict(t.engine.search(jobs, settings, 2))[number][0].tokens for number in range(2)]
        for t in (ours, theirs)
    ]
    assert outputs[0] == outputs[1]
    assert not {*ours.codec.target.forbidden_ids()} & {*outputs[0][0], *outputs[0][1]}


def test_hugging_face_has_the_markers(marked_run: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    huggingface.export(marked_run, tmp_path / "exported")
    codec = Translator.load(marked_run, device="cpu", engine="torch").codec
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    markers = [*codec.source.sentinels, *(codec.source.term_markers or ())]
    assert tokenizer.convert_tokens_to_ids([*SENTINELS, *TERM_MARKERS]) == markers
    assert not {*markers} & {*tokenizer(TEXT).input_ids}
    suppressed = read_json(tmp_path / "exported" / "generation_config.json")["suppress_tokens"]
    assert not {*codec.target.sentinels} & {*suppressed}
    assert {*(codec.target.term_markers or ())} <= {*suppressed}
    import_model(tmp_path / "exported", tmp_path / "again")
    again = Translator.load(tmp_path / "again", device="cpu", engine="torch")
    assert again.codec.sha256 == codec.sha256
