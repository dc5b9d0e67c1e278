"""What `transduce bench serve` says of a service is so: speed, patience, wrong answers, memory."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from conftest import COMMAND, CommandLine, environment

from transduce.bench import load as load_module
from transduce.bench import serving
from transduce.bench.load import NO_ANSWER, Load, Page, Texts, Wrong, drive, open_page
from transduce.bench.results import quantile
from transduce.bench.served import COLUMNS, Comparison, Endurance, Memory
from transduce.bench.service import processor_seconds, resident
from transduce.bench.service import serving as started
from transduce.bench.serving import Served
from transduce.bench.sides import Worker
from transduce.bench.translators import Translated
from transduce.config import SearchConfig
from transduce.errors import BadInput

LINES = ["a dog sees the man.", "every bird likes one tree!", "the fish finds a dog today."]
SOURCES = ["one", "two\nlines", "drei Wörter hier", "four"]
MACHINE = {
    "device": "cpu",
    "gpu": None,
    "processor": "an abacus",
    "cores": 1,
    "threads": 1,
    "versions": {"python": "3", "torch": "2"},
}


class Said(NamedTuple):
    """What a service by hand answers."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    leaves: bool = False  # closes the connection


def translated(asked: dict[str, Any]) -> Said:
    """Translate into capitals."""
    return Said(200, json.dumps({"text": asked["text"].upper()}).encode())


@contextmanager
def by_hand(
    answer: Callable[[dict[str, Any]], Said], pages: dict[str, str] | None = None
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Serve on a free port; yield it and the bodies that were asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            assert self.path == "/api/translate"
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.say(answer(asked[-1]))

        def do_GET(self) -> None:
            found = (pages or {}).get(self.path)
            self.say(Said(404, b"{}") if found is None else Said(200, found.encode()))

        def say(self, said: Said) -> None:
            self.send_response(said.status)
            for name, value in said.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            with suppress(BrokenPipeError):  # who asked does not wait any longer
                self.wfile.write(said.body)
            self.close_connection = said.leaves

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def texts(**settings: Any) -> Texts:
    return Texts(SOURCES, [source.upper() for source in SOURCES], settings)


# --- Clients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [1, 3, 9])
def test_every_text_is_asked_for_once_however_many_ask(clients: int) -> None:
    with by_hand(translated) as (port, asked):
        load = drive(port, texts(beam=2), iter(range(4)), clients=clients)
    assert Counter(one["text"] for one in asked) == Counter(SOURCES)
    assert all((one["split"], one["beam"]) == (True, 2) for one in asked)
    assert (load.answers, load.wrong, load.retries) == ({"200": 4}, 0, 0)
    assert len(load.latencies) == 4
    assert 0 < min(load.latencies) <= max(load.latencies) <= load.seconds
    assert load.speed == 4 / load.seconds
    assert load.client_seconds > 0


def test_a_wrong_answer_is_counted_and_the_first_is_shown() -> None:
    def errs(asked: dict[str, Any]) -> Said:
        text = "fore" if asked["text"] == "four" else asked["text"].upper()
        return Said(200, json.dumps({"text": text}).encode())

    with by_hand(errs) as (port, _):
        load = drive(port, texts(), iter([0, 3, 1, 3]), clients=1)
    assert (load.answers, load.wrong) == ({"200": 4}, 2)
    assert load.first_wrong == Wrong("four", "FOUR", "fore")


@pytest.mark.parametrize("body", [b"ONE", b"{}", b'"ONE"', b'{"text": 1}', b"\xff"])
def test_an_answer_that_is_none_is_wrong(body: bytes) -> None:
    with by_hand(lambda _: Said(200, body)) as (port, _):
        load = drive(port, texts(), iter([0]), clients=1)
    assert load.wrong == 1
    assert load.first_wrong == Wrong("one", "ONE", f"no text: {body!r}")


def test_who_is_put_off_asks_again_after_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        if seconds != 1:  # of the one who tells how it goes
            pauses.append(seconds)
            seconds = 0
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    full = iter([("Retry-After", "2")] * 2 + [("Retry-After", "900")])

    def busy(asked: dict[str, Any]) -> Said:
        header = next(full, None)
        return Said(503, b"{}", (header,)) if header else translated(asked)

    with by_hand(busy) as (port, asked):
        load = drive(port, texts(), iter([0]), clients=1)
    assert pauses == [2, 2, load_module.LONGEST_PAUSE]
    assert [one["text"] for one in asked] == ["one"] * 4
    assert (load.answers, load.retries, load.wrong) == ({"503": 3, "200": 1}, 3, 0)
    assert len(load.latencies) == 1


def test_a_service_that_is_always_full_is_not_asked_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_module, "TRIES", 3)
    full = Said(503, b"{}", (("Retry-After", "0"),))
    with by_hand(lambda _: full) as (port, asked):
        load = drive(port, texts(), iter([0]), clients=1)
    assert len(asked) == 3
    assert (load.answers, load.speed) == ({"503": 3}, 0)


def test_refusals_are_counted_by_status_and_are_no_translations() -> None:
    def refuses(asked: dict[str, Any]) -> Said:
        return Said(413, b'{"error": "too long"}') if "\n" in asked["text"] else translated(asked)

    with by_hand(refuses) as (port, _):
        load = drive(port, texts(), iter(range(4)), clients=2)
    assert (load.answers, load.wrong, len(load.latencies)) == ({"200": 3, "413": 1}, 0, 3)
    assert load.refused == "413: too long"
    assert load.speed == 3 / load.seconds


@pytest.mark.parametrize("headers", [(("Connection", "close"),), ()])
def test_a_connection_that_was_closed_is_opened_again(headers: tuple[tuple[str, str], ...]) -> None:
    """Whether the answer said so or not."""
    close = translated({"text": "one"})._replace(headers=headers, leaves=True)
    with by_hand(lambda _: close) as (port, _):
        assert drive(port, texts(), iter([0, 0, 0]), clients=1).answers == {"200": 3}


def test_no_answer_is_counted_unless_the_service_has_ended() -> None:
    with by_hand(translated) as (port, _):
        pass
    assert drive(port, texts(), iter([0, 1]), clients=2).answers == {NO_ANSWER: 2}

    def ended() -> None:
        raise BadInput("the service has ended: out of paper")

    with pytest.raises(BadInput, match="out of paper"):
        drive(port, texts(), iter([0]), clients=1, require=ended)


def test_an_answer_that_does_not_come_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_module, "SECONDS_TO_ANSWER", 0.05)
    go = threading.Event()

    def late(asked: dict[str, Any]) -> Said:
        go.wait()
        return translated(asked)

    with by_hand(late) as (port, _):
        load = drive(port, texts(), iter([0]), clients=1)
        go.set()
    assert load.answers == {NO_ANSWER: 1}


def test_a_load_ends_with_its_time_and_tells_how_it_goes() -> None:
    heard: list[tuple[float, int]] = []
    with by_hand(translated) as (port, _):
        load = drive(
            *(port, texts(), iter(lambda: 0, 1)),
            clients=2,
            seconds=1.2,
            every_second=lambda elapsed, load: heard.append((elapsed, load.answers["200"])),
        )
    assert load.seconds >= 1.2
    assert len(heard) >= 1
    assert heard[0][0] >= 1
    assert 0 < heard[0][1] <= load.answers["200"]


def test_the_page_is_opened_with_all_that_it_refers_to() -> None:
    pages = {
        "/": '<link rel="stylesheet" href="/base.css"><script src="/a.js"></script><a href="/runs">'
        '<a href="https://example.org/x.css">',
        "/base.css": "body {}",
        "/a.js": 'import { b } from "./b.js";\nimport "./b.js";',
        "/b.js": 'import { a } from "/a.js";',
    }
    with by_hand(translated, pages) as (port, _):
        page = open_page(port)
        assert (page.files, page.size) == (4, sum(map(len, pages.values())))
        assert page.seconds > 0
        del pages["/b.js"]
        with pytest.raises(BadInput, match=r"answered 404 to GET /b\.js: expected 200"):
            open_page(port)
    with pytest.raises(BadInput, match="did not answer GET /: "):
        open_page(port)


# --- The process -------------------------------------------------------------------------------


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


SERVES = "import time; print('listening on http://127.0.0.1:4321', flush=True); time.sleep(600)"


def test_a_service_is_ended_whatever_happens() -> None:
    with started(python(SERVES)) as service:
        assert service.port == 4321
        service.require()
        assert service.process.poll() is None
    assert service.process.poll() == -signal.SIGTERM
    with pytest.raises(KeyboardInterrupt), started(python(SERVES)) as service:
        raise KeyboardInterrupt
    assert service.process.poll() is not None


def test_a_service_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.bench.service.SECONDS_TO_END", 0.1)
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SERVES}"
    with started(python(deaf)) as service:
        pass
    assert service.process.poll() == -9


def test_why_a_service_does_not_start_is_said() -> None:
    code = "import sys; print('reading', file=sys.stderr); sys.exit('error: there is no run x')"
    with (
        pytest.raises(BadInput, match=r"^the service did not start: there is no run x$"),
        started(python(code)),
    ):
        pass


def test_a_service_that_says_nothing_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transduce.bench.service.SECONDS_TO_START", 0)
    with pytest.raises(BadInput, match="did not start within 0 seconds"), started(python(SERVES)):
        pass


def test_a_service_that_ends_is_noticed() -> None:
    with started(python(f"{SERVES.partition('time.sleep')[0]} print('no more')")) as service:
        service.process.wait()
        with pytest.raises(
            BadInput, match="the service has ended with status 0; its last words: no more"
        ):
            service.require()


def test_what_a_process_costs_is_read_from_the_system(tmp_path: Path) -> None:
    own = tmp_path / "7"
    own.mkdir()
    (own / "status").write_text("Name:\tpython\nVmHWM:\t  99 kB\nVmRSS:\t   21 kB\n")
    fields = " ".join(map(str, range(3, 52)))  # the third and on
    (own / "stat").write_text(f"7 (a) b (c) {fields}\n")
    assert resident(7, tmp_path) == 21 * 1024
    ticks = 14 + 15  # the numbers of the fields in proc(5)
    assert processor_seconds(7, tmp_path) == pytest.approx(ticks / _ticks_a_second())
    assert resident(8, tmp_path) is None
    assert processor_seconds(8, tmp_path) is None


def _ticks_a_second() -> int:
    return int(subprocess.run(["getconf", "CLK_TCK"], capture_output=True, check=True).stdout)


# --- Numbers -----------------------------------------------------------------------------------


def measured(*speeds: float, **changes: Any) -> Load:
    """A load of a second in which so many texts were answered."""
    whole: dict[str, Any] = {
        "clients": 2,
        "seconds": 1.0,
        "answers": Counter({"200": int(speeds[0])}),
        "client_seconds": 0.25,
        "service_seconds": 1.5,
    }
    load = Load(**(whole | changes))
    load.latencies.extend(one / 1000 for one in range(1, 101))
    return load


def comparison(*loads: Load) -> Comparison:
    return Comparison(
        path="by hand on cpu",
        whole=tuple(Translated(1.0, ["x"] * 100, 5, 1.6) for _ in loads),
        each=(0.001, 0.002, 0.003),
        loads=loads,
        alone=measured(3.0, clients=1),
        page=Page(4, 5000, 0.0071),
        search=SearchConfig(),
        text="ten lines",
        machine=MACHINE,
    )


def test_the_ratio_is_of_the_medians_and_ranges_over_rounds() -> None:
    found = comparison(measured(90), measured(80), measured(120))
    facts = found.to_json()
    assert (facts["ratio"], facts["ratios"]) == (0.9, [0.9, 0.8, 1.2])
    assert facts["serve"]["sentences_per_second"] == 90
    assert facts["translate"]["sentences_per_second"] == 100
    assert facts["serve"]["latency_ms"] == pytest.approx({"median": 51, "95": 96, "99": 100})
    assert (facts["serve"]["cores"], facts["serve"]["cores_of_clients"]) == (1.5, 0.25)
    assert facts["processor_ms_per_sentence"] == pytest.approx(
        {"translate": 16, "serve": 4500 / 290, "clients": 750 / 290}
    )
    assert facts["serve"]["answers"] == {"200": 90 + 80 + 120 + 3}
    assert facts["page"] == {"files": 4, "bytes": 5000, "ms": 7.1}
    json.dumps(facts)


def test_the_report_has_a_row_for_each_side_and_their_ratio() -> None:
    first = Wrong("a", "b", "c")
    found = comparison(measured(90), measured(80, wrong=1, first_wrong=first, retries=2))
    head, *rows = found.report().partition("\n\n")[0].splitlines()
    assert all(column in head for column in COLUMNS)
    assert [row.split("  ")[0] for row in rows] == ["translate", "serve, 2 clients", "ratio"]
    assert rows[1].split() == [
        *("serve,", "2", "clients", "85.0", "80.0", "to", "90.0", "51.0", "96.0", "100.0"),
        *("51.0", "96.0", "17.65", "2.94"),
    ]
    assert rows[2].split() == ["ratio", "0.850", "0.800", "to", "0.900"]
    for line in (
        "median of 2, each all of the text, by turns",
        "173 with 200; 2 retried after 503",
        "1 that differ from what translate writes",
        "first wrong  'a'\n  expected   'b'\n  found      'c'\n",
        "4 files, 5.0 kB, in 7.1 ms",
        "cpu, 1 thread, an abacus",
    ):
        assert line in found.report()


def test_a_refusal_is_shown_in_the_words_of_the_service() -> None:
    found = comparison(measured(90), measured(80, refused="413: too long"))
    assert "first refused 413: too long" in found.report()
    assert found.to_json()["serve"]["first_refused"] == "413: too long"
    assert comparison(measured(90)).to_json()["serve"]["first_refused"] is None


def test_a_service_that_refuses_everything_is_not_measured() -> None:
    refusal = Said(400, b'{"error": "beam = 99: at most 16"}')
    with (
        by_hand(lambda _: refusal) as (port, _),
        started(python(SERVES)) as service,
        pytest.raises(BadInput, match="refuses all that it is asked, with 400: beam = 99: at most"),
    ):
        Served(replace(service, port=port), texts(), 2).measure(("all", SOURCES))


def test_what_the_system_does_not_tell_is_left_empty() -> None:
    found = comparison(measured(90, service_seconds=None))
    assert found.to_json()["serve"]["cores"] is None
    assert found.to_json()["processor_ms_per_sentence"]["serve"] is None
    assert quantile([], 0.5) is None


def test_memory_that_grows_evenly_has_that_slope() -> None:
    times = tuple(float(one) for one in range(60))
    grows = Memory(times, tuple(2**20 * (100 + second) for second in range(60)))
    assert grows.slope == pytest.approx(2**20)
    assert grows.late_slope == pytest.approx(2**20)
    assert str(grows) == (
        "100.0, 130.0, 159.0 MiB at the start, in the middle and at the end; "
        "+60.00 MiB a minute, +60.00 in the second half"
    )


def test_memory_that_is_kept_once_does_not_grow_in_the_second_half() -> None:
    sizes = (10, 20, 30, 40, 50, 50, 50, 50, 50, 50)
    once = Memory(tuple(map(float, range(10))), sizes)
    assert once.slope is not None
    assert once.slope > 3
    assert once.late_slope == 0
    facts = once.to_json()
    assert (facts["start"], facts["middle"], facts["end"]) == (10, 50, 50)


def test_memory_that_nobody_saw_is_not_known() -> None:
    for memory in (Memory((), ()), Memory((1.0,), (5,))):
        assert memory.slope is None
        assert str(memory) == "not known on this system"
    assert Memory((), ()).to_json()["end"] is None


def test_endurance_is_told_line_by_line() -> None:
    found = Endurance(
        path="by hand on cpu",
        load=measured(90, answers=Counter({"200": 90, "503": 7}), retries=7),
        memory=Memory((1.0, 2.0), (2**20, 2**20)),
        page=Page(4, 5000, 0.0071),
        search=SearchConfig(),
        text="ten lines",
        machine=MACHINE,
    )
    for line in (
        "load         2 clients for 1s: 90.0 texts/s",
        "latency      median 51.0 ms, 95th percentile 96.0 ms, 99th 100.0 ms",
        "answers      90 with 200, 7 with 503; 7 retried after 503",
        "memory       1.0, 1.0, 1.0 MiB at the start, in the middle and at the end; +0.00 MiB",
        "cores        1.50 for the service, 0.25 for the clients",
    ):
        assert line in found.report()
    facts = found.to_json()
    assert facts["texts_per_second"] == 90
    assert facts["answers"] == {"200": 90, "503": 7}
    json.dumps(facts)


def test_texts_are_mixed_of_lines_paragraphs_and_pages() -> None:
    lines = [f"Line {number}." for number in range(40)]
    mix = serving.mixed(lines)
    assert mix == serving.mixed(lines)
    assert mix[:40] == lines
    paragraphs, pages = mix[40:60], mix[60:]
    assert len(pages) == 10
    assert all("\n" not in one and 2 <= one.count(".") <= 8 for one in paragraphs)
    assert all(set(one.split("\n")) <= set(lines) for one in pages)


# --- The whole command -------------------------------------------------------------------------


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file of lines, some with two sentences."""
    path = tmp_path / "text.en"
    lines = [" ".join(pair) for pair in pairwise(LINES)]
    path.write_text("\n".join([*LINES, "", *lines]), encoding="utf-8")
    return path


def test_a_service_is_measured_beside_translate(
    run_cli: CommandLine, tiny_run: Path, text: Path
) -> None:
    options = "--clients 3 --lines 5 --rounds 1 --single 2 --beam 2 --json"
    done = run_cli("bench", "serve", tiny_run, text, *options.split())
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["bench"], found["clients"], found["search"]["beam"]) == ("serve", 3, 2)
    assert found["serve"]["answers"] == {"200": 5 + 2}
    assert (found["serve"]["wrong"], found["serve"]["first_wrong"]) == (0, None)
    for side in ("serve", "translate"):
        assert found[side]["sentences_per_second"] == found[side]["rounds"][0] > 0
        assert found[side]["latency_ms_alone"]["median"] > 0
    assert found["ratio"] == pytest.approx(
        found["serve"]["rounds"][0] / found["translate"]["rounds"][0], rel=0.01
    )
    assert found["page"]["files"] > 2
    assert found["text"] == f"5 lines of {text}"
    assert {"ctranslate2", "fastapi"} <= found["machine"]["versions"].keys()
    for line in done.stderr.splitlines():
        assert line.startswith(("starting ", "serving on ", "measuring: ")), line


@pytest.mark.long  # fails now and then: the last line is KeyboardInterrupt; cause unknown
def test_ctrl_c_ends_the_service_too(tiny_run: Path, text: Path) -> None:
    options = ["--clients", "2", "--seconds", "5"]
    with subprocess.Popen(
        [*COMMAND, "bench", "serve", str(tiny_run), str(text), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        address = ""
        for line in process.stderr:
            if line.startswith("serving on "):
                address = line.removeprefix("serving on http://").strip()
            elif line.startswith("loading: "):
                break
        host, _, port = address.partition(":")
        socket.create_connection((host, int(port))).close()
        process.send_signal(signal.SIGINT)
        out, said = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert said.splitlines()[-1] == "stopped: nothing was measured", said
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--engine fastest", "The engines are: auto, torch, ctranslate2"),
        ("--engine torch:int8", "there is no engine torch:int8"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    cli: CommandLine, tiny_run: Path, text: Path, options: str, said: str
) -> None:
    assert said in cli("bench", "serve", tiny_run, text, *options.split()).error


def test_a_text_or_run_that_is_not_there_is_refused_before_anything_starts(
    cli: CommandLine, tiny_run: Path, text: Path, tmp_path: Path
) -> None:
    assert "missing.en" in cli("bench", "serve", tiny_run, tmp_path / "missing.en").error
    assert "nowhere" in cli("bench", "serve", tmp_path / "nowhere", text).error


# --- Endurance, with sides by hand -------------------------------------------------------------


class InProcess:
    """A worker that translates into capitals; what it was asked is kept."""

    name = "translate"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def measure(self, request: tuple[str, list[str]]) -> Translated:
        self.asked += request[1]
        return Translated(1.0, [line.upper() for line in request[1]], 5)


def test_a_service_is_loaded_for_a_while_with_texts_of_all_kinds(
    tiny_run: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = InProcess()
    with by_hand(translated, {"/": "a page"}) as (port, asked), started(python(SERVES)) as service:

        @contextmanager
        def sides(*_: object) -> Iterator[Any]:
            own = replace(service, port=port)
            yield serving.Sides(cast("Worker", worker), "torch on cpu", own, SearchConfig())

        monkeypatch.setattr(serving, "both_sides", sides)
        plan = serving.Plan(run=tiny_run, source=str(text), clients=2, settings={"beam": 3})
        found = serving.endure(plan, seconds=1.1)
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line]
    assert set(worker.asked) >= set(lines)
    assert {one["text"] for one in asked} <= set(serving.mixed(lines))
    assert found.load.wrong == 0
    assert found.load.answers.keys() == {"200"}
    assert 0 < found.load.answers["200"] < len(asked)  # warming up is not counted
    assert found.load.seconds >= 1.1
    assert min(found.memory.sizes) > 2**20
    assert found.load.service_seconds is not None
    assert found.page.files == 1
    assert all(one["beam"] == 3 for one in asked)


def test_lines_of_a_text_are_expected_line_by_line() -> None:
    worker = InProcess()
    found = serving.expected(cast("Worker", worker), ["a b", "c\nd\n\ne", "f"])
    assert found == ["A B", "C\nD\n\nE", "F"]
    assert worker.asked == ["a b", "c", "d", "", "e", "f"]


def test_the_command_hands_its_options_on(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def noted(*places: Any, **options: Any) -> Comparison:
        asked.update(options, places=places)
        return comparison(measured(90))

    monkeypatch.setattr(serving, "compare", noted)
    monkeypatch.setattr(serving, "endure", noted)
    found = cli("bench", "serve", "run", "text.en", "--alpha", "1", "--engine", "ctranslate2:int8")
    assert found.stdout == comparison(measured(90)).report() + "\n"
    (plan,) = asked["places"]
    assert (plan.run, plan.source, plan.lines) == (Path("run"), "text.en", None)
    assert (plan.settings, plan.clients, plan.engine) == ({"alpha": 1}, 32, "ctranslate2:int8")
    assert (asked["single"], asked["rounds"]) == (50, 3)
    cli("bench", "serve", "run", "text.en", "--seconds", "300", "--clients", "64")
    assert (asked["places"][0].clients, asked["places"][1]) == (64, 300)
