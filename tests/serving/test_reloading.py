"""Models are replaced by the present weights of their run folders, without a pause."""

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import COMMAND, environment
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from serving import KEY, OTHER, PATIENCE, ask, bearer, error, scripted, translated, until
from transduce.runs.arrays import hash_of
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.keys import Keys
from transduce.serving.models import ServedModel
from transduce.translation.translator import Translator

SENTENCES = ["a dog sees the tree.", "every bird likes one man!", "the fish finds a dog today."]
TEXTS = [*SENTENCES, " ".join(SENTENCES), " ".join(SENTENCES[::-1])]


def reload(app: FastAPI, body: Any, key: str | None) -> httpx.Response:
    headers = bearer(key) if key else {}
    return ask(app, "POST", "/api/reload", json=body, headers=headers)


@pytest.mark.parametrize("keys", [None, Keys([KEY])], ids=["open", "keyed"])
def test_reloading_needs_an_administrators_key(tiny_run: Path, keys: Keys | None) -> None:
    served, _ = scripted(tiny_run)
    closed = create_app([served], access=Access(keys=keys))
    assert "--admin-key-file" in error(reload(closed, {}, KEY), 403)
    app = create_app([served], access=Access(keys=keys, admin_keys=Keys([OTHER])))
    assert "needs a key" in error(reload(app, {}, None), 401)
    assert "unknown" in error(reload(app, {}, KEY), 401)  # a client's key
    assert "there is no model x" in error(reload(app, {"model": "x"}, OTHER), 404)
    answer = ask(app, "POST", "/api/translate", json={"text": "a dog."}, headers=bearer(OTHER))
    assert answer.status_code == (200 if keys is None else 401)  # it does not translate


def test_a_request_in_progress_is_answered_by_the_old_model(tiny_run: Path) -> None:
    """The old model's threads end when its last request is answered."""
    old, slow = scripted(tiny_run, held=True)
    new, fast = scripted(tiny_run)
    app = create_app([old])
    service = app.state.service

    async def story() -> tuple[int, int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            def translate(text: str) -> asyncio.Task[httpx.Response]:
                return asyncio.ensure_future(client.post("/api/translate", json={"text": text}))

            first = translate("a dog.")
            while not slow.batches:
                await asyncio.sleep(0.001)
            waiting = translate("a man.")
            while service.sentences < 2:
                await asyncio.sleep(0.001)
            service.serve(new)
            second = (await translate("a bird.")).status_code
            assert not first.done()
            slow.go.set()
            return second, (await first).status_code + (await waiting).status_code

    threads = threading.active_count()
    batcher = service.batchers[old]
    assert asyncio.run(story()) == (200, 400)
    assert (len(slow.batches), len(fast.batches)) == (2, 1)
    until(lambda: not batcher._threads)
    assert service.close()
    until(lambda: threading.active_count() <= threads)


def test_replaced_models_are_freed(tiny_run: Path) -> None:
    app = create_app([ServedModel.load(tiny_run, "tiny", engine="ctranslate2")])
    service = app.state.service
    old = weakref.ref(service.models["tiny"])
    assert translated(app, text="a dog.")["text"]
    asyncio.run(app.state.reloads.reload())
    assert translated(app, text="a dog.")["text"]
    gc.collect()
    assert old() is None
    assert len(service.batchers) == 1
    assert service.close()


@dataclass
class Client:
    """Sends sentences without a pause, and notes the answers."""

    url: str
    statuses: set[int] = field(default_factory=set)
    answers: list[tuple[str, str]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with httpx.Client(base_url=self.url, headers=bearer(KEY)) as client:
            while not self.stop.is_set():
                text = TEXTS[len(self.answers) % len(TEXTS)]
                answer = client.post("/api/translate", json={"text": text})
                self.statuses.add(answer.status_code)
                self.answers.append((text, answer.json().get("text", "")))


@pytest.fixture
def process(own_run: Path, tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", str, int]]:
    """A service of `own_run` at a terminal: its process, its address, and the other end."""
    terminal, end = os.openpty()
    keys, admin_keys = tmp_path / "keys", tmp_path / "admin-keys"
    keys.write_text(KEY)
    admin_keys.write_text(OTHER)
    options = ("--key-file", keys, "--admin-key-file", admin_keys, "--port", "0", "--no-open")
    with subprocess.Popen(
        [*COMMAND, "serve", str(own_run), *map(str, options)],
        stdin=end,
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"TRANSDUCE_CACHE": str(tmp_path / "cache")}),
    ) as started:
        os.close(end)
        assert started.stderr is not None
        lines = iter(started.stderr.readline, "")
        url = next(line for line in lines if line.startswith("http")).split()[0]
        try:
            yield started, url, terminal
        finally:
            started.kill()


def test_reloading_under_load_fails_no_request(
    process: tuple["subprocess.Popen[str]", str, int],
    own_run: Path,
    tiny_run: Path,
    learnt_run: Path,
) -> None:
    service, url, terminal = process
    runs = (tiny_run, learnt_run)
    assert service.stderr is not None
    first, second = (hash_of(run / "model.safetensors") for run in runs)
    clients = [Client(url) for _ in range(3)]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    admin = httpx.Client(base_url=url, headers=bearer(OTHER), timeout=PATIENCE)
    with closing(admin):
        until(lambda: all(client.answers for client in clients))

        # A broken folder leaves the old weights in service.
        (own_run / "model.safetensors").write_bytes(b"broken")
        failure = admin.post("/api/reload", json={})
        sentence = error(failure, 409)
        assert sentence.startswith("own_run was not reloaded, and its old weights stay in service")
        assert "model.safetensors" in sentence
        assert served(url) == (first, "own_run", first, 0, 1)
        assert f"warning: {sentence}" in service.stderr.readline()

        # The folder gets another model, with other subwords.
        shutil.rmtree(own_run)
        shutil.copytree(learnt_run, own_run)
        answer = admin.post("/api/reload", json={"model": "own_run"})
        expected = {"name": "own_run", "version": second, "previous": first}
        assert answer.json() == {"models": [expected]}
        assert served(url) == (second, "own_run", second, 1, 1)
        assert service.stderr.readline() == f"own_run: reloaded, weights {second[:12]}\n"

        # SIGHUP does the same.
        service.send_signal(signal.SIGHUP)
        assert service.stderr.readline() == f"own_run: reloaded, weights {second[:12]}\n"
        inspected = admin.post("/api/inspect", json={"source": TEXTS[0]}, headers=bearer(KEY))
    for client, thread in zip(clients, threads, strict=True):
        client.stop.set()
        thread.join(PATIENCE)
    assert {status for client in clients for status in client.statuses} == {200}
    old, new = ({text: Translator.load(run)(text) for text in TEXTS} for run in runs)
    assert all(given in (old[text], new[text]) for c in clients for text, given in c.answers)
    assert all(client.answers[-1][1] == new[client.answers[-1][0]] for client in clients)
    assert inspected.json()["sentences"][1] == new[TEXTS[0]]
    assert served(url) == (second, "own_run", second, 2, 1)

    # A closed terminal stops the service.
    os.close(terminal)
    service.send_signal(signal.SIGHUP)
    assert service.wait(PATIENCE) == 0
    assert service.stderr.read() == "stopped\n"


def served(url: str) -> tuple[str, str, str, int, int]:
    """Return the version in /api/models; name and version, and counts of reloads, in /metrics."""
    with httpx.Client(base_url=url, headers=bearer(KEY)) as client:
        (model,) = client.get("/api/models").json()["models"]
        families = [*text_string_to_metric_families(client.get("/metrics").text)]
    samples = [sample for family in families for sample in family.samples]
    (info,) = (sample.labels for sample in samples if sample.name == "transduce_model_info")
    counts = {
        sample.labels["result"]: int(sample.value)
        for sample in samples
        if sample.name == "transduce_reloads_total"
    }
    version = model["version"]
    return version, info["model"], info["version"], counts["replaced"], counts["failed"]
