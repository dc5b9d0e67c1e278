"""Metrics sent elsewhere: a function, Weights & Biases, MLflow."""

import importlib.machinery
import json
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine, options
from small_training import SETTINGS

from transduce import train
from transduce.errors import BadSetting, MissingExtra
from transduce.runs import tracking
from transduce.runs.folder import checkpoints
from transduce.system.progress import Silent

Files = tuple[Path, Path]
SHORT = SETTINGS | {"log_every": "2", "validate_every": "4", "save_every": "4"}


class Spoken(Silent):
    """Records what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def train_short(files: Files, out: Path, steps: int = 8, **more: Any) -> Spoken:
    spoken = Spoken()
    settings = SHORT | {"steps": str(steps)}
    train(*files, out=out, preset="tiny", settings=settings, device="cpu", progress=spoken, **more)
    return spoken


def recorded(run: Path) -> list[tuple[int, dict[str, float]]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [(value.pop("step"), value) for value in map(json.loads, lines)]


def test_a_callback_gets_what_the_metrics_file_has(upper_case_pairs: Files, tmp_path: Path) -> None:
    got: list[tuple[int, Mapping[str, float]]] = []
    train_short(upper_case_pairs, tmp_path / "run", callback=lambda *call: got.append(call))
    assert got == recorded(tmp_path / "run")
    assert [step for step, _ in got] == [2, 4, 4, 6, 8, 8]
    assert {"valid_loss", "valid_perplexity"} <= {*got[2][1]}


def test_an_exception_in_the_callback_ends_the_run_after_saving(
    upper_case_pairs: Files, tmp_path: Path
) -> None:
    """The run continues to the same weights as one without it."""

    class Pruned(Exception):
        pass

    def prune(step: int, metrics: Mapping[str, float]) -> None:
        if step == 6:
            raise Pruned

    run, whole = tmp_path / "run", tmp_path / "whole"
    with pytest.raises(Pruned):
        train_short(upper_case_pairs, run, callback=prune)
    assert [checkpoint.step for checkpoint in checkpoints(run)] == [4, 7]
    train_short(upper_case_pairs, run)
    train_short(upper_case_pairs, whole)
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    with pytest.raises(Pruned):  # at the last step the model is written first
        train_short(upper_case_pairs, tmp_path / "last", 6, callback=prune)
    assert (tmp_path / "last" / "model.safetensors").exists()


class FakeService:
    """Modules with the interface of wandb and mlflow that we use; they record calls."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        self.metrics: dict[str, list[tuple[int, str]]] = {}
        self.parameters: dict[str, Any] = {}
        self.ended: list[str] = []
        self.broken: Exception | None = None

    def record(self, name: str, step: int, keys: Mapping[str, float]) -> None:
        if self.broken:
            raise self.broken
        self.metrics.setdefault(name, []).extend((step, key) for key in keys)

    def wandb(self) -> types.ModuleType:
        module = types.ModuleType("wandb")

        def init(**options: Any) -> Any:
            self.begun.append(options)
            return types.SimpleNamespace(
                log=lambda values, step: self.record(options["id"], step, values),
                finish=lambda: self.ended.append(options["id"]),
            )

        module.init = init  # type: ignore[attr-defined]
        return module

    def mlflow(self) -> types.ModuleType:
        service = self

        class MlflowClient:
            def __init__(self, tracking_uri: str) -> None:
                service.begun.append({"uri": tracking_uri})

            def get_experiment_by_name(self, name: str) -> None:
                assert name == "transduce"

            def create_experiment(self, name: str) -> str:
                return "7"

            def create_run(self, experiment_id: str, run_name: str) -> Any:
                service.begun.append({"experiment": experiment_id, "name": run_name})
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id="run-1"))

            def update_run(self, run_id: str, status: str) -> None:
                service.begun.append({"again": run_id, "status": status})

            def log_param(self, run_id: str, key: str, value: Any) -> None:
                service.parameters[key] = value

            def log_metric(self, run_id: str, key: str, value: float, step: int) -> None:
                service.record(run_id, step, {key: value})

            def set_terminated(self, run_id: str) -> None:
                service.ended.append(run_id)

        module = types.ModuleType("mlflow")
        module.MlflowClient = MlflowClient  # type: ignore[attr-defined]
        return module


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    fake = FakeService()
    for module in (fake.wandb(), fake.mlflow()):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return fake


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_service_gets_all_metrics_and_a_resumed_run_keeps_its_id(
    name: str, service: FakeService, upper_case_pairs: Files, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train_short(upper_case_pairs, run, 4, services={name: "http://host"})
    spoken = train_short(upper_case_pairs, run, 8, services={name: "http://host"})
    (number,) = service.metrics
    assert tracking.read_ids(run) == {name: number}
    expected = [(step, key) for step, values in recorded(run) for key in values]
    assert service.metrics[number] == expected
    assert service.ended == [number, number]
    if name == "wandb":
        assert [each["id"] for each in service.begun] == [number, number]
        assert {each["resume"] for each in service.begun} == {"allow"}
        assert service.begun[0]["config"]["model.d_model"] == int(SHORT["d_model"])
    else:
        assert service.begun[1] == {"experiment": "7", "name": "run"}
        assert service.begun[-1] == {"again": "run-1", "status": "RUNNING"}
        assert service.parameters["train.seed"] == 1
    assert not any(name in line for line in spoken.lines)


def test_training_goes_on_without_the_network(
    service: FakeService,
    upper_case_pairs: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service.broken = ConnectionError("no route to host")
    both = {"wandb": "project", "mlflow": "http://host"}
    spoken = train_short(upper_case_pairs, tmp_path / "run", services=both)
    problems = [line for line in spoken.lines if "no route to host" in line]
    assert sorted(line.split()[0] for line in problems) == ["mlflow", "wandb"]
    assert (tmp_path / "run" / "model.safetensors").exists()

    def unreachable(**options: Any) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr("wandb.init", unreachable)
    spoken = train_short(upper_case_pairs, tmp_path / "other", services={"wandb": "project"})
    assert sum("TimeoutError: no answer; training goes on" in line for line in spoken.lines) == 1


def test_closing_does_not_wait_for_a_service_that_hangs(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from threading import Event

    released = Event()
    monkeypatch.setattr(tracking, "SECONDS_TO_FINISH", 0.05)
    monkeypatch.setattr(service, "record", lambda *call: released.wait(10))
    (tmp_path / "config.json").write_text("{}")
    spoken = Spoken()
    (receiver,) = tracking.Tracking(services={"wandb": "p"}).receivers(tmp_path, 0, spoken.say)
    receiver.add(1, {"loss": 1.0})
    receiver.close()
    assert spoken.lines[0].startswith("wandb did not get all metrics: it does not answer;")
    released.set()


def test_missing_libraries_and_unknown_services_are_refused_before_anything_is_written(
    cli: CommandLine,
    upper_case_pairs: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "run"
    with pytest.raises(BadSetting, match=r"there is no service wand: .* Did you mean wandb\?"):
        train_short(upper_case_pairs, out, services={"wand": "p"})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"--mlflow needs mlflow.*transduce\[mlflow\]"):
        train_short(upper_case_pairs, out, services={"mlflow": "p"})
    words = [*map(str, upper_case_pairs), "--out", str(out), *options(SHORT), "--wandb", "p"]
    assert cli("train", *words).error.startswith("--wandb needs wandb, which is not installed: pip")
    assert not out.exists()
    (tmp_path / tracking.IDS).write_text("[1]")
    assert tracking.read_ids(tmp_path) == {}
