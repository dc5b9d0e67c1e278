"""Metrics sent elsewhere while a run trains: a function, TensorBoard, Weights & Biases, MLflow.

Only an exception in the function ends training. A service that cannot be reached is reported once.
"""

import functools
import importlib.util
import json
import queue
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from transduce.errors import BadSetting, MissingExtra, did_you_mean, summarize_error
from transduce.runs.folder import CONFIG
from transduce.system.files import MAX_LOG_BYTES, read_regular, write_json

Callback = Callable[[int, Mapping[str, float]], object]
Say = Callable[[str], None]

IDS = "tracking.json"  # the ids of a run at its services, so that it continues there when resumed
SERVICES = ("wandb", "mlflow")
EXPERIMENT = "transduce"  # of MLflow
SECONDS_TO_FINISH = 60.0
WRITING = threading.Lock()


class Receiver(Protocol):
    """Gets the metrics of each logged step and of each validation."""

    failure: Exception | None  # ends training after saving

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Receive the metrics of a step, as in metrics.jsonl."""

    def close(self) -> None:
        """Finish at the end of the training, or when it stops."""


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Where metrics are sent beside metrics.jsonl."""

    tensorboard: bool = False
    callback: Callback | None = None
    services: Mapping[str, str] | None = None  # {"wandb": project, "mlflow": uri}

    def check(self) -> None:
        """Refuse unknown services and missing libraries."""
        if self.tensorboard and not _installed("tensorboard"):
            raise MissingExtra("--tensorboard", "tensorboard", "tensorboard")
        for name in self.services or {}:
            if name not in SERVICES:
                raise BadSetting(
                    f"there is no service {name}: expected some of {', '.join(SERVICES)}."
                    f"{did_you_mean(name, SERVICES)}"
                )
            if name == "wandb" and not _installed("wandb"):
                raise MissingExtra("--wandb", "wandb", "wandb")
            if name == "mlflow" and not _installed("mlflow"):
                raise MissingExtra("--mlflow", "mlflow", "mlflow")

    def receivers(self, run: Path, step: int, say: Say) -> list[Receiver]:
        """Return the receivers of a run that starts or resumes at this step."""
        receivers: list[Receiver] = []
        if self.callback is not None:
            receivers.append(Function(self.callback))
        if self.tensorboard:
            receivers.append(TensorBoard(run, step))
        connect = {"wandb": connect_wandb, "mlflow": connect_mlflow}
        for name, where in (self.services or {}).items():
            receivers.append(Service(name, run, where, connect[name], say))
        return receivers


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


class Function:
    """Calls a function of the user; after an exception it is not called again."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.failure: Exception | None = None

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Call the function."""
        if self.failure is None:
            try:
                self.callback(step, dict(values))
            except Exception as error:  # of any code; the trainer saves, then raises it
                self.failure = error

    def close(self) -> None:
        """Do nothing."""


class TensorBoard:
    """Writes TensorBoard's files."""

    failure: Exception | None = None

    def __init__(self, run: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.board: Any = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values."""
        for name, value in values.items():
            self.board.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the files."""
        self.board.close()


class Connection(Protocol):
    """A run at a service."""

    def send(self, step: int, values: Mapping[str, float]) -> None:
        """Send metrics."""

    def finish(self) -> None:
        """Send the rest, and end."""


Connect = Callable[[Path, str, dict[str, str]], Connection]


class Service:
    """Sends metrics in a thread, so that training never waits for a network or fails by it."""

    failure: Exception | None = None

    def __init__(self, name: str, run: Path, where: str, connect: Connect, say: Say) -> None:
        self.name, self.run, self.where, self.say = name, run, where, say
        self.connect = connect
        self.waiting: queue.SimpleQueue[tuple[int, Mapping[str, float]] | None]
        self.waiting = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.reported = False

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Queue the values; the first ones start the thread."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._send, name=self.name, daemon=True)
            self.thread.start()
        self.waiting.put((step, dict(values)))

    def close(self) -> None:
        """Wait for what is queued, but not for long."""
        if self.thread is not None:
            self.waiting.put(None)
            self.thread.join(SECONDS_TO_FINISH)
            if self.thread.is_alive():
                self._report("it does not answer")

    def _send(self) -> None:
        try:
            connection = self.connect(self.run, self.where, self._ids())
        except Exception as error:  # whatever the library raises
            self._report(summarize_error(error))
            return
        while (item := self.waiting.get()) is not None:
            self._try(functools.partial(connection.send, *item))
        self._try(connection.finish)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._report(summarize_error(error))

    def _report(self, reason: str) -> None:
        if not self.reported:
            self.reported = True
            self.say(
                f"{self.name} did not get all metrics: {reason}; training goes on, and "
                "metrics.jsonl has them all"
            )

    def _ids(self) -> dict[str, str]:
        """Return the ids of the run at its services."""
        ids = read_ids(self.run)
        if self.name == "wandb" and "wandb" not in ids:
            ids["wandb"] = secrets.token_hex(6)
            save_id(self.run, "wandb", ids["wandb"])
        return ids


def read_ids(run: Path) -> dict[str, str]:
    """Return the ids in tracking.json; none if it is missing or damaged."""
    try:
        ids = json.loads(read_regular(run / IDS, MAX_LOG_BYTES))
        return {name: ids[name] for name in SERVICES if isinstance(ids.get(name), str)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def save_id(run: Path, name: str, number: str) -> None:
    """Add an id to tracking.json; each service has its own thread."""
    with WRITING:
        write_json(run / IDS, read_ids(run) | {name: number})


def _settings(run: Path) -> dict[str, Any]:
    """Return the settings of the run: model.d_model and so on."""
    config = json.loads(read_regular(run / CONFIG, MAX_LOG_BYTES))
    return {
        f"{table}.{name}": value
        for table in ("model", "train")
        for name, value in config.get(table, {}).items()
    }


def connect_wandb(run: Path, project: str, ids: dict[str, str]) -> Connection:
    """Begin or continue a run at Weights & Biases."""
    import wandb

    session = wandb.init(
        project=project,
        id=ids["wandb"],
        name=run.resolve().name,
        dir=str(run),
        resume="allow",
        config=_settings(run),
    )

    class Wandb:
        def send(self, step: int, values: Mapping[str, float]) -> None:
            session.log(dict(values), step=step)

        def finish(self) -> None:
            session.finish()

    return Wandb()


def connect_mlflow(run: Path, uri: str, ids: dict[str, str]) -> Connection:
    """Begin or continue a run at an MLflow server, or in a folder."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    if "mlflow" not in ids:
        experiment = client.get_experiment_by_name(EXPERIMENT)
        number = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT)
        created = client.create_run(number, run_name=run.resolve().name)
        ids["mlflow"] = created.info.run_id
        save_id(run, "mlflow", ids["mlflow"])
        for name, value in _settings(run).items():
            client.log_param(ids["mlflow"], name, value)
    else:
        client.update_run(ids["mlflow"], status="RUNNING")

    class Mlflow:
        def send(self, step: int, values: Mapping[str, float]) -> None:
            for name, value in values.items():
                client.log_metric(ids["mlflow"], name, value, step=step)

        def finish(self) -> None:
            client.set_terminated(ids["mlflow"])

    return Mlflow()
