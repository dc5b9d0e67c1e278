"""A configuration of another toolkit becomes a recipe, and each of its keys is recorded."""

import math
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine, options, write_pairs
from foreign_configurations import FAIRSEQ, HYDRA, JOEYNMT, OPENNMT
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.config import ModelConfig, TrainConfig, apply_settings
from transduce.interop.converting import Conversion, convert
from transduce.interop.converting.keys import UNKNOWN
from transduce.training.optimizer import learning_rate

yaml = pytest.importorskip("yaml")

ALL = {"train.sh": FAIRSEQ, "hydra.yaml": HYDRA, "onmt.yaml": OPENNMT, "joey.yaml": JOEYNMT}
YAML = ["hydra.yaml", "onmt.yaml", "joey.yaml"]


def converted(cli: CommandLine, folder: Path, name: str, *more: str | Path) -> dict[str, Any]:
    """Write one of the configurations, convert it by the command line, and read the recipe."""
    (folder / name).write_text(ALL[name], encoding="utf-8")
    done = cli("convert", folder / name, "--out", folder / "recipe.toml", *more)
    assert done.status == 0, done.stderr
    return tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))


def leaves(tree: Any, above: str = "") -> list[str]:
    """Return the paths of all leaves of a tree, independently of the tested code."""
    if not isinstance(tree, dict):
        return [above]
    return [name for key in tree for name in leaves(tree[key], f"{above}.{key}".lstrip("."))]


def refused(cli: CommandLine, path: Path, text: str) -> str:
    """Return the error for a file with this text."""
    path.write_text(text, encoding="utf-8")
    return cli("convert", path).error


def test_the_command_of_fairseq_becomes_a_recipe(cli: CommandLine, tmp_path: Path) -> None:
    recipe = converted(cli, tmp_path, "train.sh")
    assert recipe["train"] == {"preset": "base", "steps": 50_000}
    expected: dict[str, Any] = {
        "N": 6,
        "d_model": 512,
        "d_ff": 1024,
        "h": 4,
        "d_k": 128,
        "P_drop": 0.3,
    }
    expected |= {"tie": "decoder", "joint": False, "warmup": 4000, "eps_ls": 0.1, "clip": 0.0}
    expected |= {"beta1": 0.9, "beta2": 0.98, "epsilon": 1e-9, "vocabulary": 10_000}
    expected |= {"batch_tokens": 4096 * 8 * 2}
    found = recipe["settings"]
    assert found | expected == found
    assert found["lr_scale"] == 5e-4 * math.sqrt(512 * 4000)
    source, target = "your-raw-text.de", "your-raw-text.en"  # its own text is segmented
    assert recipe["data"] == {"source": source, "target": target}
    assert "evaluate" not in recipe


def test_hydra_files_are_converted_too(cli: CommandLine, tmp_path: Path) -> None:
    recipe = converted(cli, tmp_path, "hydra.yaml", "--gpus", "8")
    expected: dict[str, Any] = {
        "steps": "none",
        "epochs": 30,
        "N": 4,
        "N_decoder": 2,
        "d_ff": 512,
        "h": 4,
    }
    expected |= {"tie": "all", "eps_ls": 0.0, "batch_tokens": 4000 * 4 * 8, "keep": 20}
    assert recipe["settings"] | expected == recipe["settings"]
    assert "decoder.attention_heads = 8: only depths may differ" in (
        tmp_path / "recipe.toml"
    ).read_text(encoding="utf-8")


def test_the_file_of_opennmt_becomes_a_recipe(cli: CommandLine, tmp_path: Path) -> None:
    recipe = converted(cli, tmp_path, "onmt.yaml")
    assert recipe["train"]["steps"] == 50_000
    expected: dict[str, Any] = {
        "N": 6,
        "d_model": 1024,
        "d_ff": 4096,
        "h": 16,
        "tie": "all",
        "vocabulary": 36_000,
    }
    expected |= {"lr_scale": 2.0, "batch_tokens": 5000 * 2 * 4, "max_len": 100, "clip": 5.0}
    expected |= {"beta2": 0.998, "attention_dropout": 0.1, "relu_dropout": 0.1, "keep": 50}
    assert recipe["settings"] | expected == recipe["settings"]
    assert recipe["data"]["source"] == "your-raw-text.en"  # there are two corpora to join
    assert recipe["data"]["valid"] == ["text/valid.en", "text/valid.de"]


def test_the_file_of_joeynmt_becomes_a_recipe(cli: CommandLine, tmp_path: Path) -> None:
    recipe = converted(cli, tmp_path, "joey.yaml")
    expected: dict[str, Any] = {
        "N": 6,
        "N_decoder": 5,
        "d_model": 256,
        "epochs": 100,
        "vocabulary": 10_000,
    }
    expected |= {"attention_dropout": 0.3, "relu_dropout": 0.3, "batch_tokens": 8192, "seed": 42}
    assert recipe["settings"] | expected == recipe["settings"]
    assert recipe["evaluate"] == {"beam": 5, "alpha": 1.0}
    assert recipe["data"]["test"] == ["text/test.de", "text/test.en"]


def test_the_origin_of_a_setting_is_its_key_or_the_default(tmp_path: Path) -> None:
    joined = FAIRSEQ.replace("--nwordssrc 10000", "--joined-dictionary --nwordssrc 10000")
    for text, origin in ((FAIRSEQ, "the default of fairseq"), (joined, "--joined-dictionary")):
        (tmp_path / "train.sh").write_text(text, encoding="utf-8")
        recipe = convert([tmp_path / "train.sh"], tmp_path).text
        (line,) = [row for row in recipe.splitlines() if row.startswith("joint = ")]
        assert line.endswith(origin)


@pytest.mark.parametrize("name", YAML)
def test_each_key_of_a_file_is_accounted_for_once(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(ALL[name], encoding="utf-8")
    entries = convert([tmp_path / name], tmp_path).entries
    assert Counter(entry.key for entry in entries) == Counter(leaves(yaml.safe_load(ALL[name])))
    assert all(entry.note for entry in entries)


def test_each_option_of_a_command_is_accounted_for_once(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(FAIRSEQ, encoding="utf-8")
    entries = convert([tmp_path / "train.sh"], tmp_path).entries
    words = FAIRSEQ.replace("=", " ").replace('"', " ").replace(";", " ").split()
    written = Counter(word for word in words if word.startswith("--"))
    found = Counter(word for e in entries for word in e.key.split() if word.startswith("--"))
    assert found == written
    unknown = [entry.key for entry in entries if entry.note == UNKNOWN]
    assert unknown == ["--word-noise"]


@settings(max_examples=20)
@given(
    name=st.sampled_from(YAML),
    key=st.text("abcdefgh_", min_size=1, max_size=9),
    value=st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=9), st.just({})),
    section=st.sampled_from(["", "model", "training", "data", "optimization"]),
)
def test_an_unknown_key_is_listed(
    tmp_path_factory: pytest.TempPathFactory, name: str, key: str, value: Any, section: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    tree = yaml.safe_load(ALL[name])
    target = tree.get(section, tree)
    target.setdefault(f"x_{key}", value)
    (folder / name).write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    conversion = convert([folder / name], folder)
    assert sum(entry.key.endswith(f"x_{key}") for entry in conversion.entries) == 1
    assert f"x_{key}" in conversion.text
    tomllib.loads(conversion.text)


@pytest.mark.parametrize("name", ALL)
def test_train_accepts_the_settings(name: str, cli: CommandLine, tmp_path: Path) -> None:
    recipe = converted(cli, tmp_path, name)
    chosen = {key: str(value) for key, value in recipe["settings"].items()}
    model, _ = apply_settings(chosen, ModelConfig(), TrainConfig(steps=100_000))
    assert model.d_model == recipe["settings"]["d_model"]


@pytest.mark.parametrize("name", ["train.sh", "onmt.yaml"])
def test_a_run_can_be_trained_with_the_recipe(
    name: str, cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    recipe = converted(cli, tmp_path, name)
    sizes = {"N": 1, "d_model": 32, "d_ff": 64, "h": 2, "d_k": 16, "d_v": 16, "vocabulary": 300}
    chosen = {key: str(value) for key, value in (recipe["settings"] | sizes).items()}
    more = ["--preset", recipe["train"]["preset"], "--steps", "2", *options(chosen)]
    run = tmp_path / "run"
    done = cli("train", *tiny_files, "--out", run, *more)
    assert done.status == 0, done.stderr
    assert (run / "model.safetensors").exists()


@pytest.mark.parametrize("warmup", [400, 4000])
def test_the_learning_rate_equals_that_of_fairseq(warmup: int, tmp_path: Path) -> None:
    script = FAIRSEQ.replace("--warmup-updates 4000", f"--warmup-updates {warmup}")
    (tmp_path / "train.sh").write_text(script, encoding="utf-8")
    found = tomllib.loads(convert([tmp_path / "train.sh"], tmp_path).text)["settings"]
    config = TrainConfig(warmup=found["warmup"], lr_scale=found["lr_scale"])
    for n in (1, warmup // 2, warmup, warmup + 1, 10 * warmup):
        # Linear up to the peak, then the inverse square root.
        theirs = 5e-4 * n / warmup if n < warmup else 5e-4 * (warmup / n) ** 0.5
        assert learning_rate(n, 512, config) == pytest.approx(theirs, rel=1e-12)


def test_raw_text_is_used_and_segmented_text_is_not(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    write_pairs(tmp_path / "text", "train", [("A dog runs.", "Ein Hund läuft.")] * 5)
    write_pairs(tmp_path / "text", "dev", [("A d@@ og runs .", "Ein H@@ und läuft .")] * 5)
    write_pairs(tmp_path / "text", "test", [("▁A ▁dog ▁runs .", "▁Ein ▁Hund .")] * 5)
    recipe = converted(cli, tmp_path, "joey.yaml")
    assert recipe["data"] == {"source": "text/train.de", "target": "text/train.en"}
    text = (tmp_path / "recipe.toml").read_text(encoding="utf-8")
    assert "data.dev = text/dev: it is segmented by subword-nmt (@@)" in text
    assert "data.test = text/test: it is segmented by SentencePiece" in text
    assert "there is no test set: translate with --beam 5" in text


def test_text_and_dictionaries_may_be_given_as_options(cli: CommandLine, tmp_path: Path) -> None:
    source, target = write_pairs(tmp_path, "raw", [("A dog runs.", "Ein Hund läuft.")])
    words = tmp_path / "dict.de.txt"
    words.write_text("the 9\ndog 3\nmadeupword0000 0\n", encoding="utf-8")
    more = ("--text", source, target, "--test", source, target, "--dictionary", words)
    recipe = converted(cli, tmp_path, "train.sh", *more)
    assert recipe["data"]["source"] == "raw.en"
    assert recipe["evaluate"] == {"beam": 5}
    assert recipe["settings"]["vocabulary"] == 2


def test_the_vocabulary_size_is_read_from_dictionaries_in_the_data_folder(
    cli: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "data-bin" / "de-en"
    folder.mkdir(parents=True)
    for side, count in (("de", 30), ("en", 20)):
        words = "".join(f"w{n} 1\n" for n in range(count))
        (folder / f"dict.{side}.txt").write_text(words, encoding="utf-8")
    assert converted(cli, tmp_path, "train.sh")["settings"]["vocabulary"] == 30


def test_a_recipe_goes_to_standard_output_and_never_overwrites_a_file(
    cli: CommandLine, tmp_path: Path
) -> None:
    converted(cli, tmp_path, "joey.yaml")
    done = cli("convert", tmp_path / "joey.yaml")
    assert tomllib.loads(done.stdout)["settings"]["N"] == 6
    assert "39 taken" not in done.stdout
    assert "not taken; the recipe says why" in done.stderr
    again = cli("convert", tmp_path / "joey.yaml", "--out", tmp_path / "recipe.toml")
    assert "exists already" in again.error


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("transformer_iwslt_de_en", "fconv_wmt_en_de", "expected a Transformer"),
        ("--lr 5e-4", "--lr $RATE", "--lr = '$RATE': expected a number"),
        ("--dropout 0.3", "--dropout 1.5", "P_drop = 1.5"),
        ("'(0.9, 0.98)'", "'(0.9, 0.98)", "a quote that is never closed"),
        ("fairseq-train", "other-train", "is not a known configuration"),
    ],
)
def test_a_command_that_cannot_be_converted_is_refused(
    old: str, new: str, words: str, cli: CommandLine, tmp_path: Path
) -> None:
    text = FAIRSEQ.replace(old, new)
    if old == "fairseq-train":
        text = text.replace("fairseq-preprocess", "echo").replace("fairseq-generate", "echo")
    assert any(word in refused(cli, tmp_path / "a.sh", text) for word in words.split("|"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("encoder_type: brnn\nsave_model: x\n", "encoder_type = brnn cannot be converted"),
        (JOEYNMT.replace("type: transformer", "type: recurrent"), "cannot be converted"),
        ("a: &x [1]\nb: [*x, *x]\n", "line 2 repeats *x: write the values out"),
        ("train_steps: !!python/object/apply:os.system [ls]\n", "expected plain values"),
        ("train_steps: 1\ntrain_steps: 2\n", "line 2 has train_steps again"),
        ("a: " + "[" * 50 + "]" * 50, "nested more than"),
        ("a: [1\n", "is not YAML"),
        ("a: 1\n---\nb: 2\n", "expected keys and values"),
        ("? [a]\n: 1\n", "has a key that is not a word"),
        ("just a line\n", "expected keys and values"),
        ("", "expected keys and values"),
        ("some: thing\n", "is not a known configuration"),
        (OPENNMT.replace("heads: 16", "heads: 3"), "expected a multiple of the heads"),
        (OPENNMT.replace("enc_layers: 6", "enc_layers: 1e9"), "is not possible here: N ="),
        ("x: " + "y" * (1 << 19), "is larger than 256 KiB"),
    ],
)
def test_a_file_that_cannot_be_converted_is_refused(
    text: str, words: str, cli: CommandLine, tmp_path: Path
) -> None:
    assert words in refused(cli, tmp_path / "a.yaml", text)


def test_a_checkpoint_is_never_opened(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint_best.pt"
    path.write_bytes(b"\x80\x02")
    assert "is a checkpoint, a pickle, which is never opened" in cli("convert", path).error
    other = path.rename(tmp_path / "model")
    other.write_bytes(b"\xff\xfe\x00")
    assert "checkpoints (.pt) are never opened" in cli("convert", other).error


def test_a_script_is_never_executed(cli: CommandLine, tmp_path: Path) -> None:
    script = f"touch {tmp_path}/ran; fairseq-train x --lr $(touch {tmp_path}/ran) --seed 3\n"
    (tmp_path / "a.sh").write_text(script, encoding="utf-8")
    cli("convert", tmp_path / "a.sh")
    assert not (tmp_path / "ran").exists()


def test_another_schedule_than_eq_3_is_reported(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(JOEYNMT.replace("warmupinversesquareroot", "plateau"), encoding="utf-8")
    done = cli("convert", path)
    assert "lr_scale" not in tomllib.loads(done.stdout)["settings"]
    assert "to do: choose lr_scale and warmup" in done.stderr


def conversion_of(folder: Path, name: str, *changes: tuple[str, str]) -> Conversion:
    """Convert one of the configurations after replacing parts of it."""
    text = ALL[name]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / name).write_text(text, encoding="utf-8")
    return convert([folder / name], folder)


BOTH = "--encoder-normalize-before --decoder-normalize-before"
T2T = "transformer_wmt_en_de_big_t2t"
ENCODER_END = "{}, embeddings: {{embedding_dim: 256, scale: true}}}}\n  decoder"


@pytest.mark.parametrize(
    ("name", "changes", "pre_norm", "to_do"),
    [
        ("train.sh", [], None, True),  # the encoder only
        ("train.sh", [("--encoder-normalize-before", "")], None, False),
        ("train.sh", [("--encoder-normalize-before", BOTH)], True, False),
        ("train.sh", [("transformer_iwslt_de_en", T2T)], True, False),
        ("hydra.yaml", [("decoder: {", "decoder: {normalize_before: true, ")], None, True),
        ("hydra.yaml", [("{layers", "{normalize_before: true, layers")], True, False),
        ("hydra.yaml", [("{layers", "{normalize_before: false, layers")], None, False),
        ("hydra.yaml", [("transformer\n", f"{T2T}\n")], True, False),
        (
            "hydra.yaml",
            [("transformer\n", f"{T2T}\n"), ("{layers: 4", "{normalize_before: no, layers: 4")],
            None,
            True,
        ),
        ("joey.yaml", [], True, False),
        ("joey.yaml", [("layer_norm: pre", "layer_norm: post")], None, False),
        ("joey.yaml", [(ENCODER_END.format("pre"), ENCODER_END.format("post"))], None, True),
        ("onmt.yaml", [], True, False),  # it has no other Transformer
    ],
)
def test_norms_before_the_sub_layers_of_both_stacks_are_converted(
    name: str,
    changes: list[tuple[str, str]],
    pre_norm: bool | None,
    to_do: bool,
    tmp_path: Path,
) -> None:
    conversion = conversion_of(tmp_path, name, *changes)
    found = tomllib.loads(conversion.text)["settings"]
    assert found.get("pre_norm") is pre_norm
    assert any("choose pre_norm" in line for line in conversion.to_do) == to_do
    outcomes = {entry.outcome for entry in conversion.entries if "norm" in entry.key}
    assert outcomes <= ({"taken", "not taken"} if to_do else {"taken"})


def test_a_missing_final_norm_of_fairseq_is_reported(tmp_path: Path) -> None:
    options = [("--encoder-normalize-before", f"{BOTH} --no-decoder-final-norm")]
    conversion = conversion_of(tmp_path, "train.sh", *options)
    (entry,) = [e for e in conversion.entries if e.key == "--no-decoder-final-norm"]
    assert (entry.outcome, "a norm follows the last layer" in entry.note) == ("not taken", True)


@pytest.mark.parametrize(
    ("name", "old", "new", "above"),
    [
        ("train.sh", "--lr 5e-4", "--lr 6e-4", False),
        ("train.sh", "--lr 5e-4", "--lr 1e-3", True),
        ("hydra.yaml", "0.0005", "0.01", True),
        ("onmt.yaml", "learning_rate: 2", "learning_rate: 2", True),
        ("onmt.yaml", "learning_rate: 2", "learning_rate: 1", False),
        ("joey.yaml", "learning_rate: 2e-4", "learning_rate: 2e-3", True),
        ("joey.yaml", "learning_rate: 2e-4", "learning_rate: 2e-4", False),
    ],
)
def test_all_matrices_keep_the_rate_of_the_toolkit(
    name: str, old: str, new: str, above: bool, tmp_path: Path
) -> None:
    """With lr_scale above 1 alone, training would lower the rate of some matrices."""
    found = tomllib.loads(conversion_of(tmp_path, name, (old, new)).text)["settings"]
    assert (found["lr_scale"] > 1) == above
    assert found.get("residual_lr") == (1.0 if above else None)
