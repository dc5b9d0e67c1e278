"""Training is the paper's, and goes on exactly where it was stopped."""

import dataclasses
import json
import math
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce.batching.prefetch import Update
from transduce.checkpoints.checkpoint import average, load_tensors, load_weights
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadRun, BadSetting, Diverged, Interrupted
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig, checkpoints
from transduce.runs.metrics import Translated
from transduce.system.files import read_json, write_checksummed
from transduce.system.signals import StopSignal
from transduce.training import settings as plan
from transduce.training.gradient import Objective
from transduce.training.log import Log
from transduce.training.train import train
from transduce.training.trainer import Trainer
from transduce.training.validation import SHOWN, spread, translations

SETTINGS = {
    "N": "1",
    "d_model": "16",
    "d_ff": "32",
    "h": "2",
    "d_k": "8",
    "d_v": "8",
    "vocabulary": "300",
    "batch_tokens": "150",
    "steps": "24",
    "save_every": "6",
    "validate_every": "8",
    "validate_bleu": "4",
    "log_every": "5",
    "keep": "3",
    "average": "2",
    "select": "average",
    "warmup": "10",
    "threads": "1",
}


class Killed(Exception):
    """Stands for kill -9: nothing is saved or cleaned up after it."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("text")
    words = ["ein", "zwei", "drei", "Hund", "Katze", "läuft", "schläft", "groß"]
    lines = [
        " ".join(words[(i * k) % 8] for k in range(1, 2 + i % 6)) + f" {i % 13}."
        for i in range(160)
    ]
    source, target = folder / "train.de", folder / "train.up"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    target.write_text("\n".join(lines).upper() + "\n", encoding="utf-8")
    return source, target


def run(files: tuple[Path, Path], out: Path, **changes: str) -> Path:
    return train(*files, out=out, preset="tiny", settings=SETTINGS | changes, device="cpu")


@pytest.fixture(scope="module")
def whole(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(files, tmp_path_factory.mktemp("whole") / "run")


def killing(at: int, kind: type = Trainer, where: str = "update") -> Callable[..., Any]:
    """Return a stand-in for a method of Trainer or Log that dies after step `at`."""
    original = getattr(kind, where)

    def dying(self: Any, *args: Any, **named: Any) -> Any:
        step = self.state.step if kind is Trainer else args[0].step
        if step >= at:
            raise Killed
        return original(self, *args, **named)

    return dying


@pytest.mark.parametrize("at", range(1, 24, 3))
def test_killed_at_any_step_and_resumed_it_ends_with_the_same_bits(
    at: int,
    files: tuple[Path, Path],
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(at))
        with pytest.raises(Killed):
            run(files, tmp_path / "run")
    run(files, tmp_path / "run")
    for name in ("model.safetensors", "best.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes()
    assert without_speed(tmp_path / "run") == without_speed(whole)
    assert samples(tmp_path / "run") == samples(whole)


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        *((Trainer, where) for where in ("save", "_save", "validate", "_validate")),
        (Trainer, "finish"),
        *((Log, where) for where in ("add", "_write", "keep")),
    ],
)
def test_killed_while_saving_or_validating_it_ends_with_the_same_bits(
    kind: type,
    where: str,
    files: tuple[Path, Path],
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(kind, where, killing(12, kind, where))
        with pytest.raises(Killed):
            run(files, tmp_path / "run")
    run(files, tmp_path / "run")
    assert load_all(tmp_path / "run") == load_all(whole)
    assert without_speed(tmp_path / "run") == without_speed(whole)
    assert samples(tmp_path / "run") == samples(whole)


def test_killed_while_choosing_the_weights_it_ends_with_the_same_bits(
    files: tuple[Path, Path], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "finish", killing(24, where="finish"))
        with pytest.raises(Killed):
            run(files, tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()
    run(files, tmp_path / "run")
    assert load_all(tmp_path / "run") == load_all(whole)


def test_killed_before_old_checkpoints_were_deleted_they_are_when_it_goes_on(
    files: tuple[Path, Path], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("transduce.training.trainer.prune", lambda *_: None)
        patch.setattr(Trainer, "finish", killing(24, where="finish"))
        with pytest.raises(Killed):
            run(files, tmp_path / "run")
    assert len(checkpoints(tmp_path / "run")) > len(checkpoints(whole))
    run(files, tmp_path / "run")
    assert [one.step for one in checkpoints(tmp_path / "run")] == [
        one.step for one in checkpoints(whole)
    ]


def without_speed(run: Path) -> list[dict[str, float]]:
    timed = ("seconds", "target_tokens_per_second")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines]


def samples(run: Path) -> list[str]:
    return (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()


def load_all(run: Path) -> dict[str, list[float]]:
    return {k: v.flatten().tolist() for k, v in load_tensors(run / "model.safetensors").items()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_saves_and_the_same_command_goes_on(
    number: signal.Signals,
    files: tuple[Path, Path],
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Trainer.update

    def interrupted(self: Trainer) -> None:
        original(self)
        if self.state.step == 10:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", interrupted)
        with pytest.raises(Interrupted, match=r"step 10.*the same command goes on"):
            run(files, tmp_path / "run")
    assert [(one.step, one.scheduled) for one in checkpoints(tmp_path / "run")] == [
        (6, True),
        (10, False),
    ]
    run(files, tmp_path / "run")
    assert load_all(tmp_path / "run") == load_all(whole)
    assert all(one.scheduled for one in checkpoints(tmp_path / "run"))


def test_the_model_is_the_mean_of_the_last_scheduled_checkpoints(whole: Path) -> None:
    kept = checkpoints(whole)
    assert [one.step for one in kept] == [12, 18, 24]
    mean = average([load_tensors(one.path / "weights.safetensors") for one in kept[-2:]])
    for name, tensor in load_tensors(whole / "model.safetensors").items():
        assert torch.equal(tensor, mean[name])
    assert RunConfig.load(whole).weights == "mean of the checkpoints at steps 18, 24"


def test_what_validation_translates_is_shown_by_some_sentences_of_it(
    files: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    sentences, *validations = map(json.loads, samples(whole))
    assert [one["step"] for one in validations] == [8, 16, 24]
    text = [path.read_text(encoding="utf-8").splitlines() for path in files]
    pairs = zip(sentences["source"], sentences["reference"], strict=True)
    assert set(pairs) <= set(zip(*text, strict=True))
    model, newest = Transformer(RunConfig.load(whole).model), checkpoints(whole)[-1].path
    path = newest / "weights.safetensors"
    load_weights(model, load_tensors(path), path)
    last = translations(model.eval(), open_corpus(whole / "corpus"), 4)
    assert sentences == {"source": last.source, "reference": last.reference}
    assert validations[-1]["outputs"] == last.outputs
    mute = run(files, tmp_path / "run", validate_bleu="0")
    held_out = len(open_corpus(mute / "corpus").valid)
    assert len(samples(mute)) == 4
    assert len(json.loads(samples(mute)[-1])["outputs"]) == min(SHOWN, held_out)


def test_samples_are_spread_over_all_that_was_translated() -> None:
    many = [str(i) for i in range(200)]
    found = spread(Translated(many, many, many), 8)
    assert found.source == found.outputs == ["0", "25", "50", "75", "100", "125", "150", "175"]
    few = Translated(["a"], ["b"], ["c"])
    assert spread(few, 8) == few


def test_the_best_is_chosen_if_asked(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = run(files, tmp_path / "run", select="best")
    assert (out / "model.safetensors").read_bytes() == (out / "best.safetensors").read_bytes()
    assert "best validation loss" in RunConfig.load(out).weights


def test_training_learns(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = run(files, tmp_path / "run", steps="150", validate_every="50", lr_scale="2", warmup="60")
    losses = [line["valid_loss"] for line in without_speed(out) if "valid_loss" in line]
    assert losses[-1] < losses[0] - 0.5


def test_an_update_in_pieces_learns_the_same_from_the_same_sentences_at_the_same_rate(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    changes = {"P_drop": "0", "steps": "6", "log_every": "1", "validate_every": "6"}
    whole, pieces = (
        without_speed(run(files, tmp_path / count, accumulate=count, **changes))
        for count in ("1", "3")
    )
    assert whole[0]["learning_rate"] == pytest.approx(16**-0.5 * 10**-1.5)
    assert len(whole) == len(pieces) == 6 + 1
    for one, other in zip(whole, pieces, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def test_patience_and_the_best_survive_resuming(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a rate of almost nothing no validation is better than the first by much."""
    changes = {"patience": "2", "validate_every": "2", "save_every": "2", "lr_scale": "1e-30"}
    out = run(files, tmp_path / "a", **changes)
    ended = checkpoints(out)[-1].step
    assert ended < 24
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(ended - 1))
        with pytest.raises(Killed):
            run(files, tmp_path / "b", **changes)
    again = run(files, tmp_path / "b", **changes)
    assert checkpoints(again)[-1].step == ended
    assert without_speed(again) == without_speed(out)


def test_a_finished_run_is_left_as_it_is(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = run(files, tmp_path / "run")
    before = load_all(out), without_speed(out), [one.step for one in checkpoints(out)]
    run(files, out)
    assert before == (load_all(out), without_speed(out), [one.step for one in checkpoints(out)])


def test_a_finished_run_can_be_trained_further(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = run(files, tmp_path / "run")
    run(files, out, steps="30")
    assert checkpoints(out)[-1].step == 30
    without = {name: value for name, value in SETTINGS.items() if name != "steps"}
    train(*files, out=out, preset="tiny", settings=without | {"epochs": "9"}, device="cpu")
    assert checkpoints(out)[-1].state()["place"] == {"epoch": 9, "update": 0}


def test_a_refused_command_leaves_the_settings_of_a_run_alone(
    files: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    before = (whole / "config.json").read_bytes()
    other = tmp_path / "other.de"
    other.write_text("Etwas anderes.\n" * 20, encoding="utf-8")
    with pytest.raises(BadRun, match="prepared from other text"):
        train(other, other, out=whole, settings=SETTINGS | {"steps": "99"}, device="cpu")
    assert (whole / "config.json").read_bytes() == before


def test_a_run_that_lost_its_subwords_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = run(files, tmp_path / "run")
    config = RunConfig.load(out)
    owns = {name: known for name, known in config.hashes.items() if name != "subwords.json"}
    dataclasses.replace(config, hashes=owns).save(out)  # as an older version wrote it
    (out / "subwords.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"subwords\.json"):
        run(files, out, steps="30")


def test_the_corpus_of_a_run_of_an_older_version_is_left_alone(
    files: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    config = RunConfig.load(tmp_path / "run")
    dataclasses.replace(config, identity="of other fields").save(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*/state.json"):
        state = read_json(path)
        del state["sha256"]
        write_checksummed(path, state | {"run": "of other fields"})
    run(files, tmp_path / "run")
    assert (tmp_path / "run" / "corpus" / "manifest.json").exists()


def test_a_corpus_that_was_deleted_is_made_anew_from_the_same_text_alone(
    files: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    before = load_all(whole)
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "corpus")
    other = tmp_path / "other.de"
    lines = files[1].read_text(encoding="utf-8").splitlines(keepends=True)
    other.write_text("".join(reversed(lines)), encoding="utf-8")
    with pytest.raises(BadRun, match="begun with other text than this"):
        train(files[0], other, out=tmp_path / "run", preset="tiny", settings=SETTINGS, device="cpu")
    assert not (tmp_path / "run" / "corpus").exists()
    run(files, tmp_path / "run")
    assert load_all(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"epochs": "2"}, "epoch"), ({"seconds": "1.5"}, "seconds")],
)
def test_epochs_and_time_end_a_run(
    changes: dict[str, str], expected: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    settings = {k: v for k, v in SETTINGS.items() if k != "steps"} | changes
    out = train(*files, out=tmp_path / "run", preset="tiny", settings=settings, device="cpu")
    assert RunConfig.load(out).train.steps is None
    state = checkpoints(out)[-1].state()
    if expected == "epoch":
        assert (state["place"]["epoch"], state["place"]["update"]) == (2, 0)
    else:
        assert 1.5 <= state["seconds"] < 6
        train(*files, out=out, preset="tiny", settings=settings, device="cpu")
        assert checkpoints(out)[-1].step == state["step"]


def test_other_settings_or_another_text_are_refused(
    files: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    before = load_all(whole)
    with pytest.raises(BadSetting, match="begun with d_ff = 32, not 64"):
        run(files, whole, d_ff="64")
    with pytest.raises(BadSetting, match="preset tiny, not base"):
        train(*files, out=whole, preset="base")
    other = tmp_path / "other.de"
    other.write_text("Etwas anderes.\n" * 20, encoding="utf-8")
    with pytest.raises(BadRun, match="prepared from other text"):
        train(other, other, out=whole, preset="tiny", settings=SETTINGS, device="cpu")
    assert load_all(whole) == before


def test_a_folder_of_something_else_is_left_alone(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("mine")
    with pytest.raises(BadRun, match="holds something else"):
        run(files, tmp_path / "letters")
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["dear.txt"]


def test_a_loss_that_is_no_number_ends_the_run(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Objective, batch: object) -> tuple[torch.Tensor, torch.Tensor]:
        loss = self.model.output.sum() * math.nan
        return loss, loss.detach()

    monkeypatch.setattr(Objective, "forward", broken)
    with pytest.raises(Diverged, match="no longer a number"):
        run(files, tmp_path / "run")
    assert not checkpoints(tmp_path / "run")


@pytest.mark.parametrize("kind", ["weight", "exp_avg", "exp_avg_sq"])
def test_a_weight_or_a_moment_that_is_no_number_is_never_saved(
    kind: str, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Trainer.update

    def poisoned(self: Trainer) -> Update:
        done = update(self)
        with torch.no_grad():
            moments = self.optimizer.state[self.model.output]
            (self.model.output if kind == "weight" else moments[kind])[0, 0] = math.inf
        return done

    monkeypatch.setattr(Trainer, "update", poisoned)
    with pytest.raises(Diverged, match="a weight or a moment after step 1 is no longer a number"):
        run(files, tmp_path / "run", save_every="1", validate_every="100")
    assert not checkpoints(tmp_path / "run")


def test_separate_vocabularies_and_wordpiece_train(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = run(files, tmp_path / "run", joint="false", subwords="wordpiece", vocabulary="600")
    assert RunConfig.load(out).model.tie == "decoder"


def test_tensorboard_is_written_if_asked(files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = train(
        *files,
        out=tmp_path / "run",
        preset="tiny",
        settings=SETTINGS | {"steps": "6"},
        device="cpu",
        tensorboard=True,
    )
    assert list((out / "tensorboard").glob("events.*"))


def test_settings_may_be_python_values_and_names_of_other_toolkits(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    """They give the same bits as the texts of --set."""
    values: dict[str, Any] = {
        name: int(value) if value.isdecimal() else value for name, value in SETTINGS.items()
    }
    renamed = {"layers": values.pop("N"), "dropout": 0.3, "max_skew": 4, "joint": False}
    assert values.pop("steps") == 24
    out = train(
        *files,
        out=tmp_path / "values",
        preset="tiny",
        steps=2,
        settings=values | renamed,
        device="cpu",
    )
    text = {"steps": "2", "P_drop": "0.3", "joint": "false"}
    expected = run(files, tmp_path / "texts", **text)
    assert RunConfig.load(out).model == RunConfig.load(expected).model
    assert RunConfig.load(out).train == RunConfig.load(expected).train
    assert load_all(out) == load_all(expected)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"steps": 2, "settings": {"steps": 3}}, "steps is given as an argument and in settings"),
        ({"steps": 2, "settings": {"max_steps": 3}}, "steps is given as an argument and in"),
        ({"steps": "two"}, "steps = 'two': expected a whole number or none"),
        ({"steps": 2.5}, "steps = 2.5: expected a whole number or none"),
        ({"settings": {"N": 2.5}}, "N = 2.5: expected a whole number"),
        ({"settings": {"N": [2]}}, r"N = \[2\]: expected a whole number"),
        ({"settings": ["N=2"]}, r"settings = \['N=2'\]: expected names and values"),
        ({"settings": {"lr": 0.1}}, "lr is an absolute learning rate in other toolkits"),
    ],
)
def test_settings_of_the_wrong_type_are_refused_before_anything_is_written(
    arguments: Any, said: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(BadSetting, match=f"^{said}"):
        train(*files, out=tmp_path / "run", preset="tiny", device="cpu", **arguments)
    assert not (tmp_path / "run").exists()


def test_presets_are_chosen_by_data_and_machine() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert plan.choose_preset(29_000, cpu) == "tiny"
    assert plan.choose_preset(500_000, cpu) == "small"
    assert plan.choose_preset(29_000, cuda) == "small"
    assert plan.choose_preset(4_500_000, cuda) == "base"


def test_a_run_that_is_removed_while_it_is_trained_is_told_and_begun_anew(
    files: tuple[Path, Path], tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate = Trainer.validate

    def removed(self: Trainer, interrupted: StopSignal) -> bool:
        shutil.rmtree(self.run)
        return validate(self, interrupted)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "validate", removed)
        with pytest.raises(BadRun, match=f"^{tmp_path / 'run'} was removed while it was being"):
            run(files, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    again = run(files, tmp_path / "run")
    for name in ("model.safetensors", "config.json"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


def test_a_last_validation_that_is_made_again_is_logged_once(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"steps": "8", "validate_every": "5", "save_every": "4"}
    expected = run(files, tmp_path / "expected", **few)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "finish", killing(1, where="finish"))
        with pytest.raises(Killed):
            run(files, tmp_path / "run", **few)
    # As one that was killed before the checkpoint knew of the validation.
    (newest,) = [one for one in checkpoints(tmp_path / "run") if one.step == 8]
    state = newest.state()
    write_checksummed(newest.path / "state.json", state | {"validated": 5})
    for path in (run(files, tmp_path / "run", **few), run(files, tmp_path / "run", **few)):
        assert samples(path) == samples(expected)
        assert without_speed(path) == without_speed(expected)


@pytest.mark.parametrize("name", ["config.json", "subwords.json", "best.safetensors"])
def test_a_file_of_another_run_is_refused_when_training_goes_on(
    name: str, files: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    other = run(files, tmp_path / "other", seed="7", vocabulary="270")
    own = Path(shutil.copytree(whole, tmp_path / "own"))
    shutil.copy(other / name, own / name)
    with pytest.raises((BadRun, BadSetting), match="own"):
        train(*files, out=own, settings={"select": "best"}, device="cpu")
