"""Limits of each client: rate, concurrent requests, share of the queue."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from serving import KEY, POSTS, WRONG, ask, bearer, error, post, scripted, scripted_app
from transduce.errors import BadInput
from transduce.serving import clients as clients_module
from transduce.serving.app import create_app
from transduce.serving.clients import (
    UNKNOWN,
    Clients,
    TokenBucket,
    group,
    is_local,
    proxy_addresses,
)
from transduce.serving.keys import Keys
from transduce.serving.limits import PER_CLIENT, RATE, Limits
from transduce.serving.problems import Problem


def scope(address: str, *forwarded: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", address.encode()) for address in forwarded]
    return {"client": (address, 1234), "headers": headers}


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_rate_limit_is_per_client_and_minute() -> None:
    clock = Clock()
    clients = Clients(Limits(rate=30), clock=clock)

    def retry_after(address: str = "10.0.0.1") -> int:
        try:
            admission = clients.admission(scope(address))
            admission.admit(None, free=True)
            admission.end()
        except Problem as problem:
            return int((problem.headers or {})["Retry-After"])
        return 0

    assert [retry_after() for _ in range(30)] == [0] * 30
    assert retry_after() == 2
    assert retry_after("10.0.0.2") == 0
    clock.now = 1.0
    assert retry_after() == 1
    clock.now = 2.0
    assert [retry_after(), retry_after()] == [0, 2]
    clock.now = 1_000.0
    assert [retry_after() for _ in range(31)] == [0] * 30 + [2]


def test_default_limits_apply_to_other_machines_only() -> None:
    assert Limits().for_client(local=True) == (0, 0)
    assert Limits().for_client(local=False) == (RATE, PER_CLIENT)
    for local in (True, False):
        assert Limits(rate=5, per_client=0).for_client(local=local) == (5, 0)
    assert all(map(is_local, map(group, ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"))))
    assert not any(map(is_local, map(group, ("10.0.0.1", "2001:db8::1", "", "unknown"))))


def test_addresses_of_one_network_are_one_client() -> None:
    assert group("2001:db8:1:2::1") == group("2001:db8:1:2:ffff::9") != group("2001:db8:1:3::1")
    assert group("::ffff:10.0.0.1") == group("10.0.0.1") != group("10.0.0.2")
    assert group("fe80::1%eth0")
    assert group("no address") == "no address"


@pytest.mark.parametrize(
    ("address", "forwarded", "expected"),
    [
        ("10.0.0.9", ["1.2.3.4"], "10.0.0.9"),  # not a trusted proxy: ignored
        ("127.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("127.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),  # the last entry is the proxy's
        ("127.0.0.1", ["6.6.6.6", "1.2.3.4, 10.0.0.1"], "1.2.3.4"),  # behind two proxies
        ("::ffff:127.0.0.1", ["2001:db8::5"], "2001:db8::/64"),
        ("127.0.0.1", ["1.2.3.4, no address"], UNKNOWN),  # never treated as local
        ("127.0.0.1", [], UNKNOWN),
        ("127.0.0.1", ["10.0.0.1"], UNKNOWN),
    ],
)
def test_trusted_proxies_forward_the_client_address(
    address: str, forwarded: list[str], expected: str
) -> None:
    clients = Clients(Limits(), proxies=proxy_addresses(["127.0.0.1", "10.0.0.1"]))
    assert clients.address(scope(address, *forwarded)) == expected


def test_a_trusted_proxy_must_be_an_address() -> None:
    with pytest.raises(BadInput, match="--trusted-proxy nginx: expected an address"):
        proxy_addresses(["nginx"])


def test_the_number_of_remembered_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "MAX_CLIENTS", 50)
    clients = Clients(Limits(), Keys([KEY]))
    for number in range(500):
        admission = clients.admission(scope(f"10.0.{number // 250}.{number % 250}"))
        with pytest.raises(Problem):
            admission.admit(WRONG.encode(), free=False)
    assert len(clients._recent) == 50


def test_a_bucket_never_holds_more_than_one_minute_of_requests() -> None:
    bucket = TokenBucket(60, now=0.0)
    assert bucket.wait(1e9) == 0
    for _ in range(60):
        assert bucket.wait(1e9) == 0
        bucket.take()
    assert bucket.wait(1e9) == 1


async def send_together(app: FastAPI, *sent: tuple[str, str]) -> list[httpx.Response]:
    """Send texts from some addresses; none is answered before the last is sent."""
    service = app.state.service
    waiting = []
    for address, text in sent:
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        before = service.sentences
        task = asyncio.ensure_future(client.post("/api/translate", json={"text": text}))
        waiting.append((client, task))
        while not task.done() and service.sentences == before:
            await asyncio.sleep(0.001)
    (served,) = service.models.values()
    served.translator.engine.go.set()
    answers = [await task for _, task in waiting]
    for client, _ in waiting:
        await client.aclose()
    return answers


def statuses(run: Path, limits: Limits, *sent: tuple[str, str]) -> list[int]:
    app = create_app([scripted(run, held=True)[0]], limits=limits)
    answers = asyncio.run(send_together(app, *sent))
    assert app.state.service.close()
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) >= 1
            assert "of your" in error(answer, 429)
    return [answer.status_code for answer in answers]


def test_one_client_cannot_fill_the_queue(tiny_run: Path) -> None:
    client, other, local = "10.0.0.1", "10.0.0.2", "127.0.0.1"
    several = [(client, "a dog."), (client, "a man."), (client, "a fish."), (other, "a tree.")]
    assert statuses(tiny_run, Limits(per_client=2), *several) == [200, 200, 429, 200]
    three, five = "a dog. a man. a fish.", "a dog. a man. a fish. a tree. a bird."
    half = [(client, three), (client, "a bird. a tree."), (other, three), (client, "a bird.")]
    assert statuses(tiny_run, Limits(queue=8), *half) == [200, 429, 200, 200]
    assert statuses(tiny_run, Limits(queue=8), (client, five), (local, five)) == [413, 200]


def test_a_request_that_would_wait_too_long_is_answered_503(tiny_run: Path) -> None:
    served, engine = scripted(tiny_run, held=True)
    app = create_app([served], limits=Limits(wait=1.0))
    service = app.state.service
    service._speed.add(100, 100.0)  # one sentence per second
    sent = [("127.0.0.1", f"number {n}.") for n in range(engine.batch + 1)]
    *fine, late = asyncio.run(send_together(app, *sent))
    assert app.state.service.close()
    assert {answer.status_code for answer in fine} == {200}  # they fit into the next batch
    assert f"{engine.batch} requests are waiting" in error(late, 503)
    assert int(late.headers["retry-after"]) >= 1


def test_counts_of_a_client_return_to_zero(tiny_run: Path) -> None:
    app = scripted_app(tiny_run, Limits(per_client=1), keys=Keys([KEY]))
    for _ in range(3):
        for body in ({"text": "a dog."}, {"tetx": ""}):
            ask(app, "POST", "/api/translate", json=body, headers=bearer(KEY))
        calls = {**POSTS["/translate"], "api_key": KEY}
        assert post(app, "/translate", calls).status_code == 200
    assert app.state.service.close()
