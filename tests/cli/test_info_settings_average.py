"""`transduce info`, `transduce settings` and `transduce average`."""

import json
from pathlib import Path

import torch
from command_helpers import (
    lines_of,
)
from conftest import (
    CommandLine,
    snapshot,
)

from models import SMALL
from transduce.checkpoints.checkpoint import average, load_tensors, weights_of
from transduce.config import ModelConfig, TrainConfig
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig


def test_averaging_too_many_checkpoints_is_refused_unless_it_is_the_default(
    cli: CommandLine, own_run: Path
) -> None:
    before = snapshot(own_run)
    error = cli("average", own_run, "--last", "50").error
    assert error.startswith(f"{own_run} has 4 checkpoints to average, not 50: --last 4 takes all")
    assert snapshot(own_run) == before
    assert "steps 5, 10, 15, 20" in cli("average", own_run).stderr


def test_settings_are_listed_with_defaults_and_meanings(cli: CommandLine) -> None:
    result = cli("settings")
    rows = [line.split() for line in lines_of(result.stdout)]
    assert [row[:3] for row in rows if row[:1] == ["P_drop"]] == [["P_drop", "0.1", "5.4"]]
    assert [row[0] for row in rows if row and row[0].endswith(":")] == [
        "Model:",
        "Training:",
        "Search:",
    ]
    names = {setting["name"] for setting in json.loads(cli("settings", "--json").stdout)}
    assert {"N", "eps_ls", "warmup", "beam"} <= names & {row[0] for row in rows if row}


def test_one_setting_is_shown_by_its_name_or_alias(cli: CommandLine) -> None:
    shown = cli("settings", "P_drop").stdout
    assert shown.startswith("P_drop   dropout on each sub-layer's output")
    assert "aliases  dropout, " in shown
    assert cli("settings", "dropout").stdout == shown
    assert json.loads(cli("settings", "dropout", "--json").stdout)["name"] == "P_drop"
    assert "Did you mean P_drop?" in cli("settings", "p_drop").error
    assert "set lr_scale" in cli("settings", "lr").error


def test_average_writes_the_mean_of_the_checkpoints(cli: CommandLine, own_run: Path) -> None:
    result = cli("average", own_run, "--last", "2")
    assert result.status == 0
    assert "mean of the checkpoints at steps 15, 20" in result.stderr
    folders = [own_run / "checkpoints" / f"step-00000{step}" for step in (15, 20)]
    mean = average([load_tensors(folder / "weights.safetensors") for folder in folders])
    saved = load_tensors(own_run / "model.safetensors")
    assert saved.keys() == mean.keys()
    assert all(torch.equal(saved[name], mean[name]) for name in mean)
    assert RunConfig.load(own_run).weights == "mean of the checkpoints at steps 15, 20"
    assert "steps 15, 20" in cli("info", own_run).stdout


def test_info_shows_the_facts_of_a_run(cli: CommandLine, tiny_run: Path) -> None:
    result = cli("info", tiny_run)
    assert (result.status, result.stderr) == (0, "")
    for words in (
        "languages    en to de",
        "N 1, d_model 32, d_ff 64, h 2, d_k 16, d_v 16",
        "step 20, loss ",
        "mean of the checkpoints at steps 5, 10, 15, 20",
        "checkpoints  5, 10, 15, 20",
    ):
        assert words in result.stdout
    facts = json.loads(cli("info", tiny_run, "--json").stdout)
    model = Transformer(ModelConfig.from_json(facts["model"]))
    assert facts["parameters"] == sum(tensor.numel() for tensor in weights_of(model).values())
    assert facts["train"]["batch_tokens"] == 400
    assert facts["checkpoints"] == [5, 10, 15, 20]
    assert facts["last"]["step"] == facts["validation"]["step"] == 20


def test_info_of_a_run_that_has_just_begun(cli: CommandLine, tmp_path: Path) -> None:
    RunConfig(model=ModelConfig().replace(**SMALL), train=TrainConfig()).save(tmp_path)
    result = cli("info", tmp_path)
    assert result.status == 0, result.stderr
    for words in ("nothing logged yet", "none yet", "checkpoints  none"):
        assert words in result.stdout


def test_info_names_departures_from_the_paper_and_weights(cli: CommandLine, tmp_path: Path) -> None:
    model = ModelConfig().replace(**SMALL, positions="rotary", pre_norm=True, norm="rms")
    RunConfig(model=model, train=TrainConfig(), corpus_weights=(1.0, 2.5)).save(tmp_path)
    shown = cli("info", tmp_path).stdout
    assert ", positions rotary, pre_norm True, norm rms\n" in shown
    assert "corpora      weights 1, 2.5\n" in shown


def test_info_has_a_line_for_each_part_of_the_validation(cli: CommandLine, tmp_path: Path) -> None:
    RunConfig(model=ModelConfig().replace(**SMALL), train=TrainConfig()).save(tmp_path)
    values = {"step": 1200, "valid_loss": 3.5, "valid_loss/en-de": 3, "valid_bleu/en-de": 20.25}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(values) + "\n")
    shown = cli("info", tmp_path).stdout
    assert "\nvalidation   step 1,200, loss 3.500\n  en-de      loss 3.000, bleu 20.250\n" in shown
