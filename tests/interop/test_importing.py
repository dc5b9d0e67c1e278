"""An imported Marian model gives the same results as in transformers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from both_libraries import Both
from conftest import CommandLine, options, snapshot

from models import memorise, model_of
from opus import SCRIPTS, write_opus
from transduce import Translator
from transduce.datasets import pocket
from transduce.interop.export.ctranslate2 import export as to_ctranslate2
from transduce.interop.export.huggingface import export
from transduce.interop.importing import import_model
from transduce.interop.importing.weights import NEVER
from transduce.runs.folder import RunConfig
from transduce.subwords import BOS, UNK


@pytest.fixture(scope="module")
def tuned(
    imported_model: Both, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Both, list[float]]:
    """The imported model, trained for some steps and exported, and the losses of the steps."""
    folder = tmp_path_factory.mktemp("tuned")
    run = Path(shutil.copytree(imported_model.run, folder / "run"))
    losses = memorise(run, SHORT)
    export(run, folder / "exported")
    return Both(folder / "exported", run), losses


SHORT = sorted(pocket.pairs(100, "valid"), key=lambda pair: len(pair[1]))[:4]


def test_a_given_translation_has_the_same_probability_in_both_libraries(
    imported_model: Both,
) -> None:
    for source, target in pocket.pairs(3, "test"):
        assert imported_model.differences(source, target) < 1e-4


def test_greedy_output_is_that_of_generate(imported_model: Both) -> None:
    for source, _ in pocket.pairs(3, "test"):
        assert imported_model.translated(source, beam=1) == imported_model.theirs(
            source, num_beams=1
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_word_embeddings": False},
        {"share_encoder_decoder_embeddings": False},
        {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 2},
        {"activation_function": "gelu"},
        {"separate": True},
        {"separate": True, "tie_word_embeddings": False},
    ],
    ids=str,
)
def test_every_kind_of_marian_model_is_imported(changes: dict[str, Any], tmp_path: Path) -> None:
    write_opus(tmp_path / "theirs", **changes)
    import_model(tmp_path / "theirs", tmp_path / "run")
    imported_model = Both(tmp_path / "theirs", tmp_path / "run")
    source, target = pocket.pairs(1, "test")[0]
    assert imported_model.differences(source, target) < 1e-4
    assert imported_model.translated(source, beam=1) == imported_model.theirs(source, num_beams=1)


def test_weights_in_older_formats_are_loaded_by_transformers(
    opus_copy: Path, tmp_path: Path
) -> None:
    from transformers import MarianMTModel

    import_model(opus_copy, tmp_path / "new")
    model = MarianMTModel.from_pretrained(opus_copy)
    torch.save(model.state_dict(), opus_copy / "pytorch_model.bin")
    (opus_copy / "model.safetensors").unlink()
    import_model(opus_copy, tmp_path / "old")
    assert snapshot(tmp_path / "new") == snapshot(tmp_path / "old")


def test_the_run_records_its_origin_and_search_settings(imported_model: Both) -> None:
    config = RunConfig.load(imported_model.run)
    assert config.languages == ("en", "de")
    assert config.preset == "imported"
    assert config.weights == "imported from opus-mt-en-de"
    assert (config.search.beam, config.search.alpha) == (3, 0.8)
    assert config.search.penalty == "power"
    assert config.model.activation == "swish"
    assert config.model.tie == "all"
    assert (config.model.N, config.model.N_decoder) == (2, 1)
    assert config.train.subwords == "sentencepiece"
    assert config.train.joint


def test_the_token_that_begins_outputs_is_not_in_the_softmax(imported_model: Both) -> None:
    """Marian begins with <pad>: its copy for <s> must not take part in any probability."""
    model = model_of(imported_model.ours)
    assert model.logits_bias is not None
    assert model.logits_bias[BOS] == NEVER
    assert torch.equal(model.output[0], model.output[BOS])


def test_training_can_start_from_an_imported_model(tuned: tuple[Both, list[float]]) -> None:
    _, losses = tuned
    assert losses[-1] < losses[0] / 3


@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.0), (4, 0.0), (4, 0.6), (2, 1.0)])
def test_a_fine_tuned_import_translates_the_same_after_its_export(
    tuned: tuple[Both, list[float]], beam: int, alpha: float
) -> None:
    """The searches agree if the best output ends first."""
    imported_model, _ = tuned
    for source, target in SHORT[:2]:
        ours = imported_model.translated(source, beam=beam, alpha=alpha, penalty="power")
        assert ours == imported_model.theirs(source, num_beams=beam, length_penalty=alpha)
        assert ours == target


def test_an_export_of_an_import_is_imported_as_the_same_run(
    tuned: tuple[Both, list[float]], tmp_path: Path
) -> None:
    imported_model, _ = tuned
    import_model(imported_model.folder, tmp_path / "again")
    before, after = snapshot(imported_model.run), snapshot(tmp_path / "again")
    for name in ("model.safetensors", "subwords.json"):
        assert before[name] == after[name]
    assert RunConfig.load(tmp_path / "again").model == RunConfig.load(imported_model.run).model


def test_the_command_creates_a_run_that_other_commands_can_use(
    opus_folder: Path, imported_model: Both, tmp_path: Path, cli: CommandLine
) -> None:
    run = tmp_path / "run"
    result = cli("import", opus_folder, "--out", run, "--languages", "eng-deu")
    assert result.status == 0, result.stderr
    assert "now translates eng to deu" in result.stderr
    assert snapshot(run).keys() == {"config.json", "subwords.json", "model.safetensors"}
    info = cli("info", run)
    assert "imported from opus-mt-en-de" in info.stdout
    assert "sentencepiece subwords, joint" in info.stdout
    source = SHORT[0][0]
    translated = cli("translate", run, "--beam", "1", input=f"{source}\n")
    assert translated.stdout == imported_model.ours.translate([source], beam=1)[0].text + "\n"
    files = tmp_path / "a.en", tmp_path / "a.de"
    for path, text in zip(files, SHORT[0], strict=True):
        path.write_text(f"{text}\n", encoding="utf-8")
    assert SHORT[0][1] in cli("translate", run, files[0], "--given", files[1]).stdout
    assert "no checkpoints" in cli("average", run).error
    assert "holds an imported model" in cli("train", *files, "--out", run).error
    assert "exists already" in cli("import", opus_folder, "--out", run).error
    assert "there is no folder" in cli("import", tmp_path / "none", "--out", run / "b").error


def settings(**changes: Any) -> Callable[[Path], None]:
    """Return a function that changes the settings of a folder."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8")) | changes
        path.write_text(json.dumps(config), encoding="utf-8")

    return change


def test_unk_is_never_generated(imported_model: Both) -> None:
    assert UNK in imported_model.ours.codec.target.forbidden_ids()


def test_an_import_translates_the_same_with_ctranslate2(
    tuned: tuple[Both, list[float]], tmp_path: Path
) -> None:
    """With swish, the bias of the logits, and SentencePiece subwords."""
    imported_model, _ = tuned
    fast = Translator.load(
        shutil.copytree(imported_model.run, tmp_path / "run"), engine="ctranslate2"
    )
    sources = [source for source, _ in SHORT[:2]]
    for settings in ({"beam": 1}, {"beam": 4, "alpha": 0.0}):
        for ours, theirs in zip(
            imported_model.ours.translate(sources, **settings),
            fast.translate(sources, **settings),
            strict=True,
        ):
            assert ours.text == theirs.text
            assert ours.score == pytest.approx(theirs.score, abs=1e-3)


def test_an_import_exported_to_ctranslate2_can_be_used_without_transduce(
    tuned: tuple[Both, list[float]], tmp_path: Path
) -> None:
    """As in docs/deployment.md: sentencepiece splits the text and joins the output."""
    import ctranslate2
    import sentencepiece

    imported_model, _ = tuned
    to_ctranslate2(imported_model.run, tmp_path / "out", "none")
    assert not list((tmp_path / "out").glob("*tokenizer.json"))
    cutters = [
        sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / f"{side}.spm"))
        for side in ("source", "target")
    ]
    codec = imported_model.ours.codec
    for cutter, subwords in zip(cutters, (codec.source, codec.target), strict=True):
        for text in (*SCRIPTS, *(side for pair in SHORT for side in pair)):
            cut = cutter.encode(text, out_type=str)
            known = [name if name in subwords.names else "<unk>" for name in cut]
            assert known == [subwords.names[number] for number in subwords.encode(text)]
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    for source, _ in SHORT:
        tokens = cutters[0].encode(source, out_type=str)
        (found,) = translator.translate_batch([tokens], beam_size=1)
        expected = imported_model.ours.translate([source], beam=1)[0].text
        assert cutters[1].decode(found.hypotheses[0]) == expected


def test_the_command_trains_an_import_further(
    imported_model: Both, tiny_files: tuple[Path, Path], tmp_path: Path, cli: CommandLine
) -> None:
    run = tmp_path / "tuned"
    settings = {"steps": "4", "batch_tokens": "400", "threads": "1", "save_every": "2"}
    result = cli(
        *("train", *tiny_files, "--from", imported_model.run, "--out", run, "--preset", "tiny"),
        *options(settings),
    )
    assert result.status == 0, result.stderr
    config = RunConfig.load(run)
    assert config.model.activation == "swish"
    assert (config.search.penalty, config.search.alpha) == ("power", 0.8)
    assert config.origin is not None
    assert config.origin.weights == "imported from opus-mt-en-de"
    lines = cli("translate", run, input="the dog sees a man.\n").stdout.splitlines()
    assert len(lines) == 1
