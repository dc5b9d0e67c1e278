"""How soon the page can be typed in, and how soon it shows a translation: in a real browser."""

import contextlib
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.bench import hardware
from transduce.bench.results import aligned, machine_in_words, quantile
from transduce.bench.service import command, serving
from transduce.bench.translation import read
from transduce.errors import BadInput, MissingExtra
from transduce.system.machine import cores, terminated_as_interrupted
from transduce.system.progress import Progress, Silent, counted

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",  # who is root has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NEAR = 0.2  # of the number of words, that a sentence may have more or fewer
PATIENCE = 60_000  # milliseconds, then something is wrong

READY = """() => new Promise((done) => {
  const missing = new Set(["ready", "first-contentful-paint"]);
  const observer = new PerformanceObserver((list) => {
    for (const { name } of list.getEntries()) missing.delete(name);
    if (missing.size === 0) done();
  });
  for (const type of ["mark", "paint"]) observer.observe({ type, buffered: true });
})"""
PAINTED = """() => [
  performance.getEntriesByName("first-contentful-paint")[0].startTime,
  performance.getEntriesByName("ready")[0].startTime,
]"""
# The status tells of every translation. What it tells is on the screen with the next frame but one.
NEXT_TRANSLATION = """(patience) => {
  let begin;
  const text = document.getElementById("text");
  const began = () => (begin = performance.now());
  text.addEventListener("input", began, { capture: true, once: true });
  window.shown = new Promise((done, fail) => {
    setTimeout(() => fail(new Error("no translation has come")), patience);
    new MutationObserver((_, self) => {
      if (!/^[0-9,]+ sentence/.test(document.getElementById("status").textContent)) return;
      self.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begin)));
    }).observe(document.getElementById("status"), { childList: true });
  });
}"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Milliseconds of each visit and of each sentence."""

    painted: tuple[float, ...]  # from the start of the visit to the first paint
    ready: tuple[float, ...]  # and to what is typed being translated
    shown: tuple[float, ...]  # from the last key of a sentence to its translation
    text: str
    machine: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as a JSON object."""
        return {
            "bench": "page",
            "painted_ms": list(self.painted),
            "ready_ms": list(self.ready),
            "shown_ms": list(self.shown),
            "text": self.text,
            "machine": dict(self.machine),
        }

    def report(self) -> str:
        """Return a table, and under it what was measured on what."""
        rows = [["", "median, ms", "lowest to highest", "95th"]]
        for name, times in (
            ("first paint", self.painted),
            ("ready to type", self.ready),
            ("last key to translation", self.shown),
        ):
            late = quantile([one / 1000 for one in times], 0.95)  # of seconds
            span = f"{min(times):,.0f} to {max(times):,.0f}"
            rows.append([name, f"{statistics.median(times):,.0f}", span, f"{late:,.0f}"])
        notes = [("text", self.text), *machine_in_words(self.machine)]
        return "\n".join([*aligned(rows), "", *(f"{name:12} {value}" for name, value in notes)])


def measure(
    run: Path,
    source: str,
    *,
    engine: str = "auto",
    words: int = 20,
    sentences: int = 20,
    visits: int = 10,
    progress: Progress | None = None,
) -> Measured:
    """Visit the page of a service some times, and type sentences of about so many words."""
    progress = progress or Silent()
    lines, _ = read(source, lines=None)
    near = [line for line in lines if abs(len(line.split()) - words) <= NEAR * words]
    # The page knows what it has translated: each is typed once.
    typed = [*{line[:-1]: line for line in near}.values()][:sentences]
    if not typed:
        raise BadInput(f"{source} has no line of about {words} words to type: choose other --words")
    name, _, quantize = engine.partition(":")
    options = ["--engine", name, "--quantize", quantize or "none"]
    with (
        terminated_as_interrupted("stopped: nothing was measured"),
        chromium() as browser,
        serving(command(run, options)) as service,
        progress.watch("measuring") as show,
    ):
        first = []
        for visit in range(1 + visits):  # the first starts what the browser starts once
            with _visited(browser, service.address) as page:
                first.append(page.evaluate(PAINTED))
            show(0.5 * visit / visits, f"{visit} visits")
        with _visited(browser, service.address) as page:
            shown = []
            for line in typed:
                shown.append(_typed(page, line))
                show(0.5 + 0.5 * len(shown) / len(typed), counted(len(shown), "sentence"))
        version = browser.version
    painted, ready = zip(*first[1:], strict=True)
    machine = hardware.describe("cpu", cores(), ["fastapi", "uvicorn", "playwright"])
    return Measured(
        painted=painted,
        ready=ready,
        shown=tuple(shown),
        text=f"{counted(len(typed), 'line')} of about {words} words of {source}, in Chromium "
        f"{version}",
        machine=machine,
    )


@contextlib.contextmanager
def chromium() -> Iterator["Browser"]:
    """Start a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MissingExtra("a browser to measure with", "playwright", "dev") from None
    where = found()
    if where is None:
        raise BadInput(f"there is no browser: install {NAMES[0]}, or any of {', '.join(NAMES[1:])}")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=where, args=FLAGS)
        yield browser
        browser.close()


def found() -> str | None:
    """Return where a browser is."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def _visited(browser: "Browser", address: str) -> Iterator["Page"]:
    """Open the page as somebody does who was never there."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.evaluate(READY)
    yield page
    context.close()


def _typed(page: "Page", line: str) -> float:
    """Write a line but for its last letter, wait, and return how long that letter takes."""
    _translated(page, lambda: page.locator("#text").fill(line[:-1]))
    return _translated(page, lambda: page.keyboard.type(line[-1]))


def _translated(page: "Page", write: Callable[[], None]) -> float:
    page.evaluate(NEXT_TRANSLATION, PATIENCE)
    write()
    return float(page.evaluate("window.shown"))
