"""Imported fairseq weights give the probabilities of fairseq's model.

The reference implements fairseq's documented model for one sentence, independently of our code.
"""

import argparse
import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import CommandLine
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from models import model_of, tokens_of
from opus import spm
from transduce import Translator
from transduce.datasets import pocket
from transduce.decoding.search import log_probabilities

sentencepiece = pytest.importorskip("sentencepiece")

D, H, FF = 32, 4, 48
SETTINGS: dict[str, Any] = {
    "source_lang": "en",
    "target_lang": "de",
    "encoder_embed_dim": D,
    "decoder_embed_dim": D,
    "encoder_ffn_embed_dim": FF,
    "decoder_ffn_embed_dim": FF,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": H,
    "decoder_attention_heads": H,
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "share_decoder_input_output_embed": True,
    "max_source_positions": 100,
    "max_target_positions": 90,
    "activation_fn": "relu",
    "dropout": 0.1,
}
PAD, EOS, UNK = 1, 2, 3  # fairseq's ids; 0 is <s>


def layer(state: dict[str, Tensor], name: str, *, cross: bool) -> None:
    """Draw random weights of a layer, with fairseq's names."""
    attentions = ("self_attn", "encoder_attn") if cross else ("self_attn",)
    shapes = {f"{a}.{p}_proj": (D, D) for a in attentions for p in ("q", "k", "v", "out")}
    shapes |= {"fc1": (FF, D), "fc2": (D, FF)}
    for part, shape in shapes.items():
        state[f"{name}.{part}.weight"] = torch.randn(shape) * 0.25
        state[f"{name}.{part}.bias"] = torch.randn(shape[0]) * 0.25
    for norm in (*(f"{a}_layer_norm" for a in attentions), "final_layer_norm"):
        state[f"{name}.{norm}.weight"] = 1 + torch.randn(D) * 0.2
        state[f"{name}.{norm}.bias"] = torch.randn(D) * 0.2


def write(folder: Path, *, joint: bool = False, **changes: Any) -> Path:
    """Write a folder with small random weights."""
    folder.mkdir()
    settings = SETTINGS | changes
    (folder / "fairseq.json").write_text(json.dumps(settings), encoding="utf-8")
    sizes = []
    for n, (side, language) in enumerate((("source", "en"), ("target", "de"))):
        model = spm(0 if joint else n)
        (folder / f"{side}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        words = [processor.id_to_piece(number) for number in range(3, len(processor))][::-1]
        lines = [f"{word} {n}\n" for n, word in enumerate(words)] + ["madeupword0000 0\n"]
        (folder / f"dict.{language}.txt").write_text("".join(lines), encoding="utf-8")
        sizes.append(4 + len(lines))
    torch.manual_seed(1)
    state: dict[str, Tensor] = {"encoder.version": torch.tensor([3.0])}
    for n, (stack, size) in enumerate(zip(("encoder", "decoder"), sizes, strict=True)):
        state[f"{stack}.embed_tokens.weight"] = torch.randn(size, D) * D**-0.5
        state[f"{stack}.embed_positions._float_tensor"] = torch.zeros(1)
        if settings.get(f"{stack}_learned_pos"):
            places = settings[("max_source_positions", "max_target_positions")[n]]
            state[f"{stack}.embed_positions.weight"] = torch.randn(places + 2, D) * 0.3
        for number in range(settings[f"{stack}_layers"]):
            layer(state, f"{stack}.layers.{number}", cross=stack == "decoder")
    if settings.get("share_all_embeddings"):
        state["encoder.embed_tokens.weight"] = state["decoder.embed_tokens.weight"].clone()
    tied = settings.get("share_all_embeddings") or settings["share_decoder_input_output_embed"]
    separate = torch.randn(sizes[1], D) * D**-0.5
    shared = state["decoder.embed_tokens.weight"].clone()
    state["decoder.output_projection.weight"] = shared if tied else separate
    save_file(state, folder / "model.safetensors")
    return folder


class Reference:
    """fairseq's Transformer for one sentence at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = {k: v.double() for k, v in load_file(folder / "model.safetensors").items()}
        self.settings = json.loads((folder / "fairseq.json").read_text(encoding="utf-8"))

    def ids(self, text: str, side: str, language: str) -> list[int]:
        """Encode a text with fairseq's ids."""
        words = (self.folder / f"dict.{language}.txt").read_text(encoding="utf-8").splitlines()
        numbers = {line.rpartition(" ")[0]: n + 4 for n, line in enumerate(words)}
        path = str(self.folder / f"{side}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=path).encode(text, out_type=str)
        return [numbers.get(piece, UNK) for piece in pieces] + [EOS]

    def embed(self, ids: list[int], stack: str) -> Tensor:
        x = self.state[f"{stack}.embed_tokens.weight"][ids] * math.sqrt(D)
        places = [PAD + 1 + n for n in range(len(ids))]
        learned = self.state.get(f"{stack}.embed_positions.weight")
        if learned is not None:
            return x + learned[places]
        step = math.log(10000) / (D // 2 - 1)
        rows = [
            [f(p * math.exp(-step * i)) for f in (math.sin, math.cos) for i in range(D // 2)]
            for p in places
        ]
        return x + torch.tensor(rows, dtype=torch.float64)

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.state[f"{name}.weight"], self.state[f"{name}.bias"])

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (D,), self.state[f"{name}.weight"], self.state[f"{name}.bias"], 1e-5)

    def attend(self, x: Tensor, memory: Tensor, name: str, *, causal: bool) -> Tensor:
        q = self.linear(x, f"{name}.q_proj") * (D // H) ** -0.5
        k, v = (self.linear(memory, f"{name}.{p}_proj") for p in ("k", "v"))
        heads = []
        for head in range(H):
            part = slice(head * D // H, (head + 1) * D // H)
            scores = q[:, part] @ k[:, part].T
            if causal:
                scores += torch.full_like(scores, -math.inf).triu(1)
            heads.append(scores.softmax(-1) @ v[:, part])
        return self.linear(torch.cat(heads, 1), f"{name}.out_proj")

    def feed(self, x: Tensor, name: str) -> Tensor:
        function = getattr(F, self.settings["activation_fn"])
        hidden = function(self.linear(x, f"{name}.fc1"))
        return self.norm(x + self.linear(hidden, f"{name}.fc2"), f"{name}.final_layer_norm")

    def log_probabilities(self, source: str, target: str) -> Tensor:
        """Return the log-probabilities of the tokens of a given translation."""
        memory = self.embed(self.ids(source, "source", "en"), "encoder")
        for n in range(self.settings["encoder_layers"]):
            name = f"encoder.layers.{n}"
            y = self.attend(memory, memory, f"{name}.self_attn", causal=False)
            memory = self.feed(self.norm(memory + y, f"{name}.self_attn_layer_norm"), name)
        labels = self.ids(target, "target", "de")
        x = self.embed([EOS, *labels[:-1]], "decoder")
        for n in range(self.settings["decoder_layers"]):
            name = f"decoder.layers.{n}"
            y = self.attend(x, x, f"{name}.self_attn", causal=True)
            x = self.norm(x + y, f"{name}.self_attn_layer_norm")
            y = self.attend(x, memory, f"{name}.encoder_attn", causal=False)
            x = self.feed(self.norm(x + y, f"{name}.encoder_attn_layer_norm"), name)
        logits = x @ self.state["decoder.output_projection.weight"].T
        return logits.log_softmax(-1)[range(len(labels)), labels]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"share_decoder_input_output_embed": False, "activation_fn": "gelu"},
        {"share_all_embeddings": True, "joint": True},
        {"encoder_learned_pos": True, "decoder_learned_pos": True, "decoder_layers": 2},
    ],
)
def test_a_given_translation_has_the_probability_that_fairseq_gives_it(
    changes: dict[str, Any], cli: CommandLine, tmp_path: Path
) -> None:
    folder, run = write(tmp_path / "theirs", **changes), tmp_path / "run"
    done = cli("import", folder, "--out", run)
    assert done.status == 0, done.stderr
    ours, theirs = Translator.load(run, device="cpu", engine="torch"), Reference(folder)
    for source, target in pocket.pairs(3, "test"):
        pairs = tokens_of(ours.codec, [(source, target)])
        (found,) = log_probabilities([model_of(ours)], pairs)
        expected = theirs.log_probabilities(source, target)
        torch.testing.assert_close(torch.tensor(found).double(), expected, atol=2e-5, rtol=0)


def test_an_imported_model_translates_with_both_engines(cli: CommandLine, tmp_path: Path) -> None:
    folder, run = write(tmp_path / "theirs"), tmp_path / "run"
    assert cli("import", folder, "--out", run).status == 0
    texts = "".join(f"{source}\n\n" for source, _ in pocket.pairs(3, "test"))
    engines = ["torch"]
    if importlib.util.find_spec("ctranslate2"):
        engines.append("ctranslate2")
    found = [cli("translate", run, "-", "--engine", engine, input=texts) for engine in engines]
    assert all(done.status == 0 for done in found), found[-1].stderr
    assert len(found[0].stdout.splitlines()) == 6
    assert found[0].stdout == found[-1].stdout
    assert cli("info", run).status == 0


def test_the_script_of_the_documentation_writes_files_that_can_be_imported(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a checkpoint like fairseq's: settings in a Namespace, tied matrices stored once."""
    page = (Path(__file__).parents[2] / "docs" / "converting.md").read_text(encoding="utf-8")
    (script,) = [block for block in page.split("```python\n") if '"""python weights.py' in block]
    folder = write(tmp_path / "written", joint=True, share_all_embeddings=True)
    state: dict[str, Tensor] = load_file(folder / "model.safetensors")
    for name in ("encoder.embed_tokens.weight", "decoder.output_projection.weight"):
        state[name] = state["decoder.embed_tokens.weight"]
    settings = json.loads((folder / "fairseq.json").read_text(encoding="utf-8"))
    task = {name: settings.pop(name) for name in ("source_lang", "target_lang")}
    cfg = {"task": argparse.Namespace(**task), "model": argparse.Namespace(**settings)}
    torch.save({"args": None, "cfg": cfg, "model": state}, tmp_path / "checkpoint.pt")
    paths = (tmp_path / "checkpoint.pt", folder, folder / "source.spm", tmp_path / "theirs")
    monkeypatch.setattr("sys.argv", ["weights.py", *map(str, paths)])
    exec(script.partition("```")[0], {})
    assert cli("import", tmp_path / "theirs", "--out", tmp_path / "run").status == 0
    assert cli("import", folder, "--out", tmp_path / "other").status == 0
    same = [load_file(tmp_path / run / "model.safetensors") for run in ("run", "other")]
    assert same[0].keys() == same[1].keys()
    assert all(torch.equal(same[0][name], same[1][name]) for name in same[0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder_normalize_before": True}, "encoder_normalize_before = True"),
        ({"adaptive_softmax_cutoff": [10, 20]}, "adaptive_softmax_cutoff"),
        ({"decoder_attention_heads": 2}, "only depths may differ"),
        ({"encoder_embed_dim": 30, "decoder_embed_dim": 30}, "a multiple of 4"),
        ({"activation_fn": "tanh"}, "activation_fn = 'tanh'"),
        ({"source_lang": "../en"}, "expected a language"),
        ({"share_all_embeddings": True}, "the dictionaries differ"),
        ({"encoder_layers": "6"}, "encoder_layers = '6': expected a whole number"),
        ({"dropout": 2.0}, "cannot be imported: P_drop"),
        ({"encoder_learned_pos": True}, "the weights lack encoder.embed_positions.weight"),
        ({"decoder_learned_pos": True}, "the weights lack decoder.embed_positions.weight"),
    ],
)
def test_settings_that_our_model_cannot_represent_are_refused(
    changes: dict[str, Any], words: str, cli: CommandLine, tmp_path: Path
) -> None:
    folder = write(tmp_path / "theirs")
    settings = SETTINGS | changes
    (folder / "fairseq.json").write_text(json.dumps(settings), encoding="utf-8")
    assert words in cli("import", folder, "--out", tmp_path / "run").error
    assert not (tmp_path / "run").exists()


def test_files_that_do_not_belong_together_are_refused(cli: CommandLine, tmp_path: Path) -> None:
    folder, out = write(tmp_path / "theirs"), ("--out", tmp_path / "run")
    words, state = folder / "dict.de.txt", load_file(folder / "model.safetensors")
    whole = words.read_text(encoding="utf-8")
    words.write_text(whole + "more 1\n", encoding="utf-8")
    assert "rows, but its vocabulary" in cli("import", folder, *out).error
    words.write_text(whole + "nocount\n", encoding="utf-8")
    assert "expected a word and a count" in cli("import", folder, *out).error
    words.write_text(whole + whole, encoding="utf-8")
    assert "has a word twice" in cli("import", folder, *out).error
    words.write_text(whole, encoding="utf-8")
    del state["encoder.layers.1.fc1.bias"]
    save_file(state, folder / "model.safetensors")
    assert "lack model.encoder.layers.1.fc1.bias" in cli("import", folder, *out).error
    (folder / "target.spm").unlink()
    assert "subword-nmt or fastBPE cannot be imported" in cli("import", folder, *out).error
