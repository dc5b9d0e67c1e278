"""A run can begin with another's weights, model, subwords and languages."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import TINY, CommandLine, environment, options, threads_kept, tiny_pairs, write_pairs

from transduce.checkpoints.checkpoint import load_tensors
from transduce.errors import BadRun, BadSetting
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig, checkpoints
from transduce.subwords import Codec
from transduce.system.files import sha256, write_checksummed
from transduce.training.settings import OF_SUBWORDS
from transduce.training.train import train
from transduce.training.trainer import Trainer

Files = tuple[Path, Path]

SHAPE = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "vocabulary")
TRAINING = {name: value for name, value in TINY.items() if name not in SHAPE} | {"steps": "6"}


class Killed(Exception):
    """Simulates kill -9."""


@pytest.fixture(scope="module")
def other_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_pairs(tmp_path_factory.mktemp("other"), "other", tiny_pairs(200, seed=7))


def further(files: Files, out: Path, start: Path | None, **changes: str) -> Path:
    with threads_kept():
        return train(
            *files,
            out=out,
            start=start,
            preset="tiny",
            settings=TRAINING | changes,
            device="cpu",
        )


@pytest.fixture(scope="module")
def tuned(other_files: Files, tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return further(other_files, tmp_path_factory.mktemp("tuned") / "run", tiny_run)


def weights(path: Path) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in load_tensors(path).items()}


def test_a_run_has_the_model_subwords_and_languages_of_its_start(
    tuned: Path, tiny_run: Path
) -> None:
    own, origin = RunConfig.load(tuned), RunConfig.load(tiny_run)
    assert own.model == origin.model
    assert own.languages == origin.languages == ("en", "de")
    for name in OF_SUBWORDS:
        assert getattr(own.train, name) == getattr(origin.train, name)
    assert own.train.steps == 6
    codec = Codec.load(tuned / "subwords.json")
    assert codec.sha256 == Codec.load(tiny_run / "subwords.json").sha256
    assert codec.sha256 == Codec.load(tuned / "corpus" / "subwords.json").sha256


def test_the_config_records_the_start_of_a_run(tuned: Path, tiny_run: Path) -> None:
    origin = RunConfig.load(tuned).origin
    assert origin
    assert origin.run == str(tiny_run.resolve())
    assert origin.weights == RunConfig.load(tiny_run).weights
    assert origin.sha256 == sha256(tiny_run / "model.safetensors")
    assert origin.sha256 == sha256(tuned / "start.safetensors")
    assert RunConfig.load(tiny_run).origin is None


def test_the_first_update_starts_from_the_other_weights(
    other_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    """At a learning rate of almost 0 the weights stay the same, and the optimizer starts fresh."""
    out = further(other_files, tmp_path / "run", tiny_run, lr_scale="1e-30", steps="1")
    assert weights(out / "model.safetensors") == weights(tiny_run / "model.safetensors")
    moments = load_tensors(checkpoints(out)[-1].path / "optimizer.safetensors")
    counts = [value for name, value in moments.items() if name.startswith("step.")]
    assert counts
    assert all(torch.equal(count, torch.ones(())) for count in counts)


def test_search_settings_are_taken_from_the_start(
    other_files: Files, own_run: Path, tmp_path: Path
) -> None:
    config = RunConfig.load(own_run)
    search = config.search.replace(penalty="power", alpha=1.0)
    dataclasses.replace(config, search=search).save(own_run)
    out = further(other_files, tmp_path / "run", own_run, steps="1")
    assert RunConfig.load(out).search == search


def test_the_newest_checkpoint_of_an_unfinished_run_is_used(
    other_files: Files, own_run: Path, tmp_path: Path
) -> None:
    (own_run / "model.safetensors").unlink()
    config = RunConfig.load(own_run)
    owns = {name: hashes for name, hashes in config.hashes.items() if name != "model.safetensors"}
    dataclasses.replace(config, hashes=owns).save(own_run)
    out = further(other_files, tmp_path / "run", own_run, steps="1")
    origin = RunConfig.load(out).origin
    assert origin
    assert origin.weights == "step 20 of a run that has not ended"
    newest = checkpoints(own_run)[-1].path / "weights.safetensors"
    assert weights(out / "start.safetensors") == weights(newest)


@pytest.mark.parametrize("at", [0, 3])
def test_resuming_gives_the_same_bits_even_if_the_other_run_is_gone(
    at: int,
    other_files: Files,
    own_run: Path,
    tuned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update = Trainer.update

    def dying(self: Trainer) -> None:
        if self.state.step == at:
            raise Killed
        update(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", dying)
        with pytest.raises(Killed):
            further(other_files, tmp_path / "run", own_run)
    shutil.rmtree(own_run)
    out = further(other_files, tmp_path / "run", own_run)
    assert sha256(out / "model.safetensors") == sha256(tuned / "model.safetensors")


def test_a_run_resumes_without_naming_its_start(
    other_files: Files, tuned: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(tuned, tmp_path / "run"))
    further(other_files, out, None, steps="8")
    assert checkpoints(out)[-1].step == 8
    assert RunConfig.load(out).origin == RunConfig.load(tuned).origin


def test_a_run_resumes_if_the_other_run_has_moved(
    other_files: Files, own_run: Path, tuned: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(tuned, tmp_path / "run"))
    further(other_files, out, own_run, steps="7")
    assert checkpoints(out)[-1].step == 7


def test_resuming_from_another_start_is_refused(
    other_files: Files, tiny_files: Files, tuned: Path, tiny_run: Path
) -> None:
    with pytest.raises(BadSetting, match=r"with the weights of .*tiny, not of .*run: continue"):
        further(other_files, tuned, tuned)
    with pytest.raises(BadSetting, match="was not started with the weights of another run"):
        further(tiny_files, tiny_run, tuned)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("d_ff", "128"), ("N_decoder", "2"), ("max_len", "99"), ("vocabulary", "400")),
        *(("joint", "false"), ("subwords", "wordpiece"), ("positions", "learned")),
    ],
)
def test_settings_that_change_the_model_are_refused_by_name(
    name: str, value: str, other_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadSetting, match=rf"^{name} = .*: expected .* as in .*tiny"):
        further(other_files, tmp_path / "run", tiny_run, **{name: value})
    assert not (tmp_path / "run").exists()


def test_dropout_may_change_and_equal_settings_may_be_repeated(
    other_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    out = further(other_files, tmp_path / "run", tiny_run, P_drop="0.3", d_ff="64", steps="1")
    assert RunConfig.load(out).model == RunConfig.load(tiny_run).model.replace(P_drop=0.3)


def test_a_run_without_weights_is_refused_before_anything_is_written(
    other_files: Files, own_run: Path, tmp_path: Path
) -> None:
    (own_run / "model.safetensors").unlink()
    shutil.rmtree(own_run / "checkpoints")
    with pytest.raises(BadRun, match=r"model\.safetensors is missing: put it back"):
        further(other_files, tmp_path / "run", own_run)
    with pytest.raises(BadRun, match="there is no run folder"):
        further(other_files, tmp_path / "run", tmp_path / "nowhere")
    assert not (tmp_path / "run").exists()


def test_a_corpus_with_other_subwords_is_prepared_again(
    other_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    further(other_files, tmp_path / "run", None, steps="1", vocabulary="280")
    for path in (tmp_path / "run").iterdir():
        if path.name != "corpus":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    out = further(other_files, tmp_path / "run", tiny_run, steps="1")
    codec = Codec.load(out / "corpus" / "subwords.json")
    assert codec.sha256 == Codec.load(tiny_run / "subwords.json").sha256


def test_only_the_subwords_may_be_taken_from_another_run(
    other_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    settings = TRAINING | {"N": "1", "d_model": "16", "d_ff": "32", "h": "2", "steps": "1"}
    with threads_kept():
        for steps in ("1", "2"):  # and it resumes
            out = train(
                *other_files,
                out=tmp_path / "run",
                subwords_of=tiny_run,
                preset="tiny",
                settings=settings | {"steps": steps},
                device="cpu",
            )
    config = RunConfig.load(out)
    assert config.model.d_model == 16
    assert config.model.target_vocabulary == len(Codec.load(tiny_run / "subwords.json").target)
    assert config.origin
    assert not config.origin.weights
    assert not (out / "start.safetensors").exists()
    with pytest.raises(BadSetting, match="leave out subwords_of"):
        train(*other_files, out=tmp_path / "new", start=tiny_run, subwords_of=tiny_run)
    with pytest.raises(BadSetting, match=r"^vocabulary = 400: expected"):
        train(
            *other_files,
            out=tmp_path / "new",
            subwords_of=tiny_run,
            settings={"vocabulary": "400"},
        )


def test_a_run_without_a_recorded_start_can_be_read(own_run: Path) -> None:
    content = json.loads((own_run / "config.json").read_text())
    del content["sha256"], content["origin"]
    write_checksummed(own_run / "config.json", content)
    assert RunConfig.load(own_run).origin is None


def test_the_command_prints_the_run_it_starts_from(
    cli: CommandLine, other_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    swapped = other_files[::-1]
    done = cli(
        *("train", *swapped, "--out", tmp_path / "run", "--from", tiny_run),
        *("--preset", "tiny", "--device", "cpu", *options(TRAINING)),
    )
    assert done.status == 0, done.stderr
    assert f"with the model of {tiny_run}: N 1, d_model 32" in done.stderr
    assert f"starting from the weights of {tiny_run.resolve()}: mean of" in done.stderr
    assert "endings say de-en, but the model translates en-de" in done.stderr
    output = cli("info", tmp_path / "run").stdout
    assert f"of {tiny_run.resolve()}" in output
    assert "fresh weights" in cli("info", tiny_run).stdout


def test_two_processes_start_from_a_run_like_one(
    other_files: Files, tiny_run: Path, tuned: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    program = ["-m", "transduce", "train", *other_files, "--out", tmp_path / "run"]
    named = ["--from", tiny_run, "--preset", "tiny", "--device", "cpu"]
    changes = options(TRAINING | {"lr_scale": "1e-30", "steps": "1"})
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", *map(str, program + named), *changes],
        capture_output=True,
        env=environment(),
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    start = weights(tiny_run / "model.safetensors")
    assert weights(tmp_path / "run" / "model.safetensors") == start


def test_the_learning_rate_is_lower_when_starting_from_a_run(
    tiny_run: Path, other_files: tuple[Path, Path], tmp_path: Path
) -> None:
    whole = find_preset("tiny").train.lr_scale
    out = further(other_files, tmp_path / "gently", tiny_run, steps="1")
    assert RunConfig.load(out).train.lr_scale == pytest.approx(0.3 * whole)
    out = further(other_files, tmp_path / "scaled", tiny_run, steps="1", lr_scale="2")
    assert RunConfig.load(out).train.lr_scale == 2
