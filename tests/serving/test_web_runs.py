"""The API of the runs page: states of runs, and what they have logged."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, CommandLine, environment
from starlette.testclient import TestClient

from fake_runs import REFERENCES, SOURCES, append, samples, training, validation, write_run
from transduce.runs.folder import RunConfig, Selection
from transduce.runs.locks import locked_run
from transduce.serving.app import create_app
from transduce.serving.runs import WatchedRun


class Client:
    """Sends the requests of the runs page."""

    def __init__(self, *watched: Path) -> None:
        self.http = TestClient(create_app([], watched), raise_server_exceptions=False)

    def runs(self) -> dict[str, Any]:
        answer = self.http.get("/api/runs")
        assert answer.status_code == 200
        return {run["name"]: run for run in answer.json()}

    def data(self, run: str, since: str = "") -> Any:
        answer = self.http.get("/api/runs/data", params={"run": run, "since": since})
        assert answer.status_code == 200
        return answer.json()


def finish(run: Path, step: int) -> None:
    dataclasses.replace(RunConfig.load(run), selection=Selection("average 5", step)).save(run)


def test_the_state_of_a_run_is_training_stopped_or_finished(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path / "run", [*training(500, 1000), *validation(1000)], steps=4000)
    client = Client(run)
    with locked_run(run):
        summary = client.runs()["run"]
        assert (summary["state"], summary["step"], summary["part"]) == ("training", 1000, 0.25)
        assert summary["left"] == pytest.approx(1500, abs=60)  # 500 s for a quarter
    summary = client.runs()["run"]
    assert (summary["state"], summary["left"]) == ("stopped", None)
    assert (summary["preset"], summary["planned"]["steps"]) == ("tiny", 4000)
    assert summary["loss"] == pytest.approx(3.0)
    assert summary["bleu"] == 10.0
    finish(run, 1000)
    os.utime(run / "config.json", (1, 1))
    assert client.runs()["run"]["state"] == "finished"


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"steps": None, "seconds": 1000.0}, 0.5),
        ({"steps": 4000, "seconds": 1000.0}, 0.5),
        ({"steps": None, "epochs": 5}, 0.4),  # of 500 steps each
    ],
)
def test_the_finished_share_is_computed_from_steps_time_or_epochs(
    settings: dict[str, Any], part: float, tmp_path: Path
) -> None:
    rows = training(250, 500, 750, 1000)
    for row in rows[2:]:
        row["epoch"] = 1
    run = write_run(tmp_path / "run", rows, **settings)
    assert Client(run).runs()["run"]["part"] == pytest.approx(part)


def test_only_new_data_is_sent_and_everything_after_a_resumption(tmp_path: Path) -> None:
    rows = [*training(100, 200), *validation(200)]
    run = write_run(tmp_path / "run", rows, samples((200, "a", "b", "c")))
    client = Client(run)
    first = client.data("run")
    assert first["void"]
    assert first["training"]["step"] == [100, 200]
    assert first["validation"]["valid_bleu"] == [2.0]
    assert first["samples"]["source"] == SOURCES
    assert first["samples"]["reference"] == REFERENCES
    assert first["samples"]["outputs"] == [["a", "b", "c"]]
    assert client.runs()["run"]["token"] == first["token"]
    append(run / "metrics.jsonl", training(300))
    append(run / "samples.jsonl", [{"step": 300, "outputs": ["d", "e", "f"]}])
    assert client.runs()["run"]["token"] != first["token"]
    second = client.data("run", first["token"])
    assert not second["void"]
    assert second["training"]["step"] == [300]
    assert second["validation"]["step"] == []
    assert second["samples"]["step"] == [300]
    (run / "metrics.jsonl").write_text("")
    append(run / "metrics.jsonl", training(100))
    third = client.data("run", second["token"])
    assert third["void"]
    assert third["training"]["step"] == [100]
    assert third["samples"]["step"] == [200, 300]
    for token in (
        "x",
        "1.2.3.4",
        "9" * 5000,
        ".".join("9" * 5000 for _ in range(4)),
        first["token"],
    ):
        assert client.data("run", token)["training"]["step"] == [100]


def test_a_long_run_is_thinned_out(tmp_path: Path) -> None:
    outputs = [(step, "a", "b", "c") for step in range(100, 50_100, 100)]
    rows = [*training(*range(10, 100_010, 10)), *validation(*range(100, 50_100, 100))]
    data = Client(write_run(tmp_path / "run", rows, samples(*outputs))).data("run")
    assert 400 < len(data["training"]["step"]) < 2_100
    assert data["training"]["step"][-1] == 100_000
    assert len(data["validation"]["step"]) == 500
    assert len(data["samples"]["step"]) <= 200
    assert data["samples"]["step"][-1] == 50_000


def test_all_runs_of_a_folder_are_shown_also_new_ones(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "b", training(10))
    (tmp_path / "runs" / "texts").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    client = Client(tmp_path / "runs")
    assert list(client.runs()) == ["b"]
    with locked_run(tmp_path / "runs" / "a"):  # its text is being prepared
        result = client.runs()
        assert list(result) == ["b", "a"]
        assert (result["a"]["state"], result["a"]["note"]) == ("training", "nothing logged yet")
        assert client.data("a")["training"]["step"] == []


def test_an_unreadable_folder_does_not_hide_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "theirs"):
        write_run(tmp_path / name, training(100))
    is_file = Path.is_file

    def denied(path: Path) -> bool:
        if path.parent.name == "theirs":
            raise PermissionError(13, "Permission denied")
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", denied)
    assert [*Client(tmp_path).runs()] == ["mine"]


def test_runs_with_equal_names_are_distinguished(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / place / "run", training(step)) for place, step in (("a", 1), ("b", 2))
    ]
    client = Client(*runs, runs[0])
    assert [run["step"] for run in client.runs().values()] == [1, 2]
    assert list(client.runs()) == ["run", str(runs[1])]
    assert client.data(str(runs[1]))["training"]["step"] == [2]


def test_damaged_and_removed_runs_are_reported(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good", training(10))
    vanishing = write_run(tmp_path / "vanishing", training(10))
    damaged = write_run(tmp_path / "damaged", [])
    (damaged / "metrics.jsonl").write_bytes(b"\xff\xfe\n{\n")
    unset = write_run(tmp_path / "unset", training(10))
    (unset / "config.json").write_text("{")
    empty = write_run(tmp_path / "empty", [])
    (empty / "metrics.jsonl").unlink()
    client = Client(good, vanishing, damaged, unset, empty)
    client.runs()
    shutil.rmtree(vanishing)
    states = {name: (run["state"], run["note"]) for name, run in client.runs().items()}
    assert states == {
        "good": ("stopped", ""),
        "vanishing": ("gone", "its folder was removed"),
        "damaged": ("damaged", "its metrics.jsonl has no readable line"),
        "unset": ("stopped", "its config.json is missing or damaged"),
        "empty": ("stopped", "nothing was logged"),
    }
    (good / "config.json").rename(good / "away.json")
    assert client.runs()["good"]["note"] == "its config.json is missing or damaged"
    (good / "away.json").rename(good / "config.json")
    assert client.runs()["good"]["note"] == ""
    assert client.data("unset")["training"]["step"] == [10]
    assert client.data("vanishing")["training"]["step"] == []


def test_a_run_that_cannot_be_read_has_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the summary, an unexpected error of one run is not an error of the service."""
    client = Client(write_run(tmp_path / "run", training(10)))
    assert client.data("run")["training"]["step"] == [10]
    monkeypatch.setattr(WatchedRun, "refresh", lambda run: 1 / 0)
    assert client.runs()["run"]["state"] == "damaged"
    data = client.data("run")
    assert (data["void"], data["training"]["step"]) == (True, [])


def test_unusual_log_entries_are_answered(tmp_path: Path) -> None:
    rows = training(0, 10)
    rows[1]["epoch"] = 1
    run = write_run(tmp_path / "run", rows, steps=None, epochs=5)
    halves = {"source": ["a"], "reference": ["b"]}, {"step": 10, "outputs": ["half \ud800"]}
    (run / "samples.jsonl").write_text("".join(json.dumps(item) + "\n" for item in halves))
    client = Client(run)
    assert client.runs()["run"]["part"] is None
    assert client.data("run")["samples"]["outputs"] == [["half ?"]]


@pytest.mark.parametrize("name", ["", "../secret", "/etc", "run/../run", "secret", "runn"])
def test_paths_from_clients_are_never_opened(name: str, tmp_path: Path) -> None:
    write_run(tmp_path / "secret", training(10))
    client = Client(write_run(tmp_path / "run", training(10)))
    answer = client.http.get("/api/runs/data", params={"run": name})
    assert answer.status_code == 404
    assert answer.json()["error"].startswith(f"there is no run {name} here.")


def test_the_runs_page_is_served_without_a_model(tmp_path: Path) -> None:
    client = Client(tmp_path).http
    assert client.get("/", follow_redirects=False).headers["location"] == "/runs"
    assert "Sample translations" in client.get("/runs").text
    for name in (
        "runs.js",
        "runs.css",
        "chart.js",
        "drawing.js",
        "readout.js",
        "scale.js",
        "samples.js",
        "base.css",
    ):
        assert client.get(f"/{name}").status_code == 200


def test_watch_prints_its_address_and_stops_on_a_signal(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", training(10))
    command = [*COMMAND, "watch", str(run), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr
        address = process.stderr.readline().split()[0]
        with urllib.request.urlopen(f"{address}/api/runs") as answer:
            assert [item["name"] for item in json.load(answer)] == ["run"]
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "stopped\n"
    assert process.returncode == 0


def test_a_missing_folder_cannot_be_watched(cli: CommandLine, tmp_path: Path) -> None:
    assert "there is no folder" in cli("watch", tmp_path / "nothing", "--port", "0").error
