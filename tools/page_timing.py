"""Measure load and translation times of the service's page in Chromium. Prints JSON.

    python tools/page_timing.py RUN TEXT --words 20 --sentences 20 --visits 10

Times are in milliseconds: from the start of a first visit to the first paint and until the page is
ready, and from the last keystroke of a sentence to its translation on the screen.
Needs Chromium and playwright.
"""

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from browser import chromium
from service_process import running_service
from transduce.bench import hardware
from transduce.bench.translation import read_texts
from transduce.system.processes import cores

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORDS_TOLERANCE = 0.2  # fraction of --words by which a sentence may be longer or shorter
TIMEOUT = 60_000  # milliseconds

WAIT_UNTIL_READY = """() => new Promise((done) => {
  const missing = new Set(["ready", "first-contentful-paint"]);
  const observer = new PerformanceObserver((list) => {
    for (const { name } of list.getEntries()) missing.delete(name);
    if (missing.size === 0) done();
  });
  for (const type of ["mark", "paint"]) observer.observe({ type, buffered: true });
})"""
PAINT_AND_READY = """() => [
  performance.getEntriesByName("first-contentful-paint")[0].startTime,
  performance.getEntriesByName("ready")[0].startTime,
]"""
# The status line changes with every translation; it is painted two frames later.
TIME_NEXT_TRANSLATION = """(timeout) => {
  let start;
  const text = document.getElementById("text");
  const begin = () => (start = performance.now());
  text.addEventListener("input", begin, { capture: true, once: true });
  window.shown = new Promise((done, fail) => {
    setTimeout(() => fail(new Error("no translation has come")), timeout);
    new MutationObserver((_, self) => {
      if (!/^[0-9,]+ sentence/.test(document.getElementById("status").textContent)) return;
      self.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
    }).observe(document.getElementById("status"), { childList: true });
  });
}"""


def choose_lines(source: str, words: int, count: int) -> list[str]:
    """Return different lines of about this many words: the page caches translations."""
    lines, _ = read_texts(source)
    fitting = [x for x in lines if abs(len(x.split()) - words) <= WORDS_TOLERANCE * words]
    chosen = [*{line[:-1]: line for line in fitting}.values()][:count]
    if not chosen:
        raise SystemExit(f"{source} has no line of about {words} words: choose other --words")
    return chosen


def measure(run: Path, lines: Sequence[str], visits: int, engine: str) -> dict[str, Any]:
    """Visit the page and type the lines."""
    name, _, quantize = engine.partition(":")
    options = ["--engine", name, "--quantize", quantize or "none"]
    with chromium() as browser, running_service(run, options) as service:
        loads = []
        for _ in range(1 + visits):  # the first visit also starts parts of the browser
            with visit(browser, service.address) as page:
                loads.append(page.evaluate(PAINT_AND_READY))
        with visit(browser, service.address) as page:
            shown = [type_line(page, line) for line in lines]
        version = browser.version
    painted, ready = zip(*loads[1:], strict=True)
    return {
        "first_paint": milliseconds(painted),
        "ready": milliseconds(ready),
        "last_key_to_translation": milliseconds(shown),
        "machine": hardware.describe("cpu", cores(), ["fastapi", "uvicorn", "playwright"])
        | {"chromium": version},
    }


def milliseconds(times: Sequence[float]) -> dict[str, Any]:
    """Return the median, the range and all times."""
    median, low, high = statistics.median(times), min(times), max(times)
    return {
        "median": round(median),
        "lowest": round(low),
        "highest": round(high),
        "all": [round(time, 1) for time in times],
    }


@contextlib.contextmanager
def visit(browser: "Browser", address: str) -> Iterator["Page"]:
    """Open the page with an empty cache and wait until it is ready."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    page.goto(address)
    page.evaluate(WAIT_UNTIL_READY)
    yield page
    context.close()


def type_line(page: "Page", line: str) -> float:
    """Enter all but the last letter, wait, then time the last one."""
    time_translation(page, lambda: page.locator("#text").fill(line[:-1]))
    return time_translation(page, lambda: page.keyboard.type(line[-1]))


def time_translation(page: "Page", write: Callable[[], None]) -> float:
    """Return the milliseconds from the input to the translation."""
    page.evaluate(TIME_NEXT_TRANSLATION, TIMEOUT)
    write()
    return float(page.evaluate("window.shown"))


def main() -> None:
    """Parse the options, measure, print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("source", help="text to type")
    parser.add_argument("--words", type=int, default=20, help="words of a typed line, about")
    parser.add_argument("--sentences", type=int, default=20, help="lines to type")
    parser.add_argument("--visits", type=int, default=10)
    parser.add_argument("--engine", default="auto", help="auto, torch, ctranslate2:int8 …")
    options = parser.parse_args()
    lines = choose_lines(options.source, options.words, options.sentences)
    report = measure(options.run, lines, options.visits, options.engine)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
