"""An exported model gives the same results in transformers as here."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY, CommandLine, snapshot, threads_kept, tiny_pairs
from hypothesis import given
from hypothesis import strategies as st

from models import logits_by_sentence, memorise, model_of, tokens_of
from transduce import Translator
from transduce.batching.packed import make_batch
from transduce.checkpoints.checkpoint import load_tensors, save_model, weights_of
from transduce.config import ModelConfig
from transduce.errors import BadInput, BadRun
from transduce.interop.export.huggingface import export
from transduce.interop.importing import import_model
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig
from transduce.subwords import BOS, EOS, PAD
from transduce.training.train import train

pytest.importorskip("transformers")

KNOWN = sorted(tiny_pairs(50, seed=2), key=lambda pair: len(pair[1]))[:3]
TEXTS = [source for source, _ in tiny_pairs(4, seed=7)]


class Exported:
    """A run and its export, loaded by `transformers`."""

    def __init__(self, run: Path, folder: Path) -> None:
        from transformers import AutoTokenizer, MarianMTModel

        self.run, self.folder = run, folder
        export(run, folder)
        model, loading = MarianMTModel.from_pretrained(folder, output_loading_info=True)
        assert not any(loading.values())  # nothing missing, nothing unexpected
        self.model: Any = model.eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.ours = Translator.load(run, device="cpu", engine="torch")


@pytest.fixture(scope="module")
def exported(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported(tiny_run, tmp_path_factory.mktemp("exported") / "deep" / "folder")


def changed(run: Path, **settings: Any) -> Path:
    """Give a run another, random model."""
    config = RunConfig.load(run)
    torch.manual_seed(0)
    model = Transformer(ModelConfig(**(config.model.to_json() | settings)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)  # biases and norms too
    path = run / "config.json"
    path.unlink()
    RunConfig(model=model.config, train=config.train, languages=config.languages).save(run)
    save_model(run, RunConfig.load(run), weights_of(model), "random")
    return run


def assert_same_logits(exported: Exported) -> None:
    """Compare both models on padded batches."""
    pairs = tokens_of(exported.ours.codec, tiny_pairs(3, seed=3))
    with torch.inference_mode():
        ours = logits_by_sentence(model_of(exported.ours), make_batch(pairs))
        source, target = (
            torch.nn.utils.rnn.pad_sequence(
                [torch.from_numpy(pair[side]) for pair in pairs], batch_first=True
            )
            for side in (0, 1)
        )
        inputs = torch.cat([torch.full((3, 1), BOS), target[:, :-1]], dim=1)
        theirs = exported.model(
            input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=inputs
        ).logits
    for row, logits in enumerate(ours):
        torch.testing.assert_close(theirs[row, : len(logits)], logits, rtol=1e-4, atol=1e-4)


def test_logits_are_the_same(exported: Exported) -> None:
    assert_same_logits(exported)


@pytest.mark.parametrize(
    "settings",
    [
        {"attention_bias": True, "logits_bias": True},
        {"activation": "swish", "N_decoder": 2},
        {"activation": "gelu", "tie": "decoder"},
        {"tie": "none", "logits_bias": True},
        {"max_len": 40},
    ],
    ids=str,
)
def test_logits_are_the_same_for_every_kind_of_model(
    settings: dict[str, Any], own_run: Path, tmp_path: Path
) -> None:
    exported = Exported(changed(own_run, **settings), tmp_path / "hf")
    assert_same_logits(exported)
    config, ours = exported.model.config, exported.ours.config.model
    assert config.max_position_embeddings == ours.max_positions
    assert config.share_encoder_decoder_embeddings == (ours.tie == "all")
    assert config.tie_word_embeddings == (ours.tie != "none")


@pytest.fixture(scope="module")
def known(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The export of a model that has memorised some pairs, so that its outputs end."""
    folder = tmp_path_factory.mktemp("known")
    run = Path(shutil.copytree(tiny_run, folder / "run"))
    memorise(run, KNOWN)
    return Exported(run, folder / "hf")


@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.0), (4, 0.0), (2, 0.0)])
def test_greedy_and_beam_output_are_the_same(beam: int, alpha: float, known: Exported) -> None:
    """The model has memorised the translations of three of the four texts."""
    for text, expected in [*KNOWN, ("a fish likes a tree.", None)]:
        tokens = known.tokenizer(text, return_tensors="pt")
        output = known.model.generate(**tokens, num_beams=beam, length_penalty=alpha)
        theirs = known.tokenizer.decode(output[0], skip_special_tokens=True)
        assert theirs == known.ours.translate([text], beam=beam, alpha=alpha)[0].text
        assert expected in (theirs, None)


def test_generation_has_our_search_settings_and_forbidden_tokens(exported: Exported) -> None:
    generation, search = exported.model.generation_config, exported.ours.config.search
    assert generation.num_beams == search.beam
    assert generation.length_penalty == search.alpha
    assert generation.suppress_tokens == exported.ours.codec.target.forbidden_ids()
    assert generation.decoder_start_token_id == BOS
    assert generation.eos_token_id == generation.forced_eos_token_id == EOS


@given(
    text=st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.sampled_from(["", " ", "a </s> b", "<s><pad>", " <unk> ", "Größe e\u0301 สวัสดี", *TEXTS]),
    )
)
def test_the_tokenizer_encodes_and_decodes_as_ours(text: str, exported: Exported) -> None:
    subwords = exported.ours.codec.source
    ids = exported.tokenizer(text).input_ids
    assert ids == [*subwords.encode(text), EOS]
    assert exported.tokenizer.decode(ids, skip_special_tokens=True) == subwords.decode(ids)


def test_the_tokenizer_knows_the_special_tokens_and_the_longest_source(exported: Exported) -> None:
    tokenizer = exported.tokenizer
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert tokenizer.model_max_length == exported.ours.config.model.max_len
    padded = tokenizer(["a dog", "a"], padding=True)
    assert padded.keys() == {"input_ids", "attention_mask"}


def test_separate_vocabularies_have_a_tokenizer_each(
    tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    settings = TINY | {"joint": "false", "subwords": "wordpiece", "vocabulary": "560", "steps": "2"}
    with threads_kept():
        train(
            *tiny_files,
            out=tmp_path / "run",
            settings=settings,
            preset="tiny",
            device="cpu",
        )
    exported = Exported(tmp_path / "run", tmp_path / "hf")
    assert_same_logits(exported)
    target = AutoTokenizer.from_pretrained(tmp_path / "hf" / "target")
    for left, right in tiny_pairs(5):
        codec = exported.ours.codec
        assert exported.tokenizer(left).input_ids == [*codec.source.encode(left), EOS]
        assert target(right).input_ids == [*codec.target.encode(right), EOS]
    import_model(tmp_path / "hf", tmp_path / "again")
    again = Translator.load(tmp_path / "again", device="cpu", engine="torch")
    assert again.codec.sha256 == exported.ours.codec.sha256
    assert not again.codec.joint


def test_an_export_imported_again_is_the_same_model(exported: Exported, tmp_path: Path) -> None:
    import_model(exported.folder, tmp_path / "run")
    before = load_tensors(exported.run / "model.safetensors")
    after = load_tensors(tmp_path / "run" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = Translator.load(tmp_path / "run", device="cpu", engine="torch")
    assert again.config.model == exported.ours.config.model
    assert again.config.languages == exported.ours.config.languages
    settings: dict[str, Any] = {"penalty": "paper", "alpha": 0.6}
    for text in TEXTS:
        assert again.translate([text], **settings) == exported.ours.translate([text], **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"positions": "learned"},
            r"Marian cannot represent .* positions = 'learned', expected sin",
        ),
        ({"gated": True}, r"Marian cannot represent this model: gated = True"),
        ({"qk_norm": True}, r"Marian cannot represent this model: qk_norm = True"),
        ({"d_v": 8}, r"d_v = 8 is less than d_model / h = 16"),
        ({"d_k": 8, "d_v": 8}, r"d_k = 8 is less than d_model / h = 16"),
    ],
    ids=str,
)
def test_a_setting_that_marian_cannot_represent_is_refused_by_name(
    settings: dict[str, Any], message: str, own_run: Path, tmp_path: Path
) -> None:
    changed(own_run, **settings)
    with pytest.raises(BadInput, match=message):
        export(own_run, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_an_existing_folder_is_refused_and_left_alone(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "precious").write_text("mine", encoding="utf-8")
    with pytest.raises(BadInput, match="exists already: choose a new folder"):
        export(tiny_run, tmp_path / "hf")
    assert snapshot(tmp_path).keys() == {"hf/precious"}


def test_an_interrupted_export_leaves_nothing(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("transduce.checkpoints.checkpoint.save_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export(tiny_run, tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_a_run_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="there is no run folder"):
        export(tmp_path / "none", tmp_path / "hf")


def test_the_command_exports(tiny_run: Path, tmp_path: Path, cli: CommandLine) -> None:
    result = cli("export", tiny_run, tmp_path / "hf", "--to", "huggingface")
    assert result.status == 0, result.stderr
    assert f"{tmp_path / 'hf'} holds the model of {tiny_run} for huggingface" in result.stderr
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["model_type"] == "marian"
    assert "exists already" in cli("export", tiny_run, tmp_path / "hf", "--to", "huggingface").error
    assert cli("export", tiny_run, tmp_path / "a", "--to", "nobody").status == 2
    assert cli("export", tiny_run, tmp_path / "a").status == 2


def test_a_foreign_tokenizer_is_refused_on_import(exported: Exported, tmp_path: Path) -> None:
    own = Path(shutil.copytree(exported.folder, tmp_path / "own"))
    content = json.loads((own / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["vocab"]["strange  name"] = content["model"]["vocab"].pop("Z")
    (own / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BadInput, match="is not one that `transduce export` writes"):
        import_model(own, tmp_path / "run")
