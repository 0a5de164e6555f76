"""`python -m tests.browser.scale`: the page with 100,000 events in one session, measured in Chromium.

What must hold: the first paint comes within 300 ms of the request, no task takes longer than 50 ms while one scrolls
from the end towards the beginning (`--steps 4000`: all of it), and what the browser holds does not grow with what one
has seen. Not a test, since it takes minutes; the suite does the same with fewer events. Wants a quiet machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from playwright.sync_api import CDPSession, Page

from tests.browser.chromium import Tab, launched
from tests.browser.long_session import SESSION, rounds
from tests.browser.serving import Site

EVENTS = 100_000
STEPS = 400
FIRST_PAINT = 300
"""Maximum time until the first paint, in milliseconds."""
FIRST_VISIT = 300_000
"""Maximum bytes of the page, its styles and scripts."""
LONG = 50
"""Duration in milliseconds from which a task is noticeable."""
ELEMENTS = 6_000

WATCH = """
window.tasks = [];
window.frames_ = [];
new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => [one.startTime, one.duration])))
    .observe({ type: "longtask", buffered: true });
new PerformanceObserver((list) => {
    for (const frame of list.getEntries()) {
        const ours = frame.scripts.filter((one) => one.sourceURL.startsWith(location.origin));
        frames_.push([frame.startTime, ...ours.map((one) => one.duration)]);
    }
}).observe({ type: "long-animation-frame", buffered: true });
"""
"""Script that records long tasks of every kind, and the share of our scripts in long frames."""
STEP = """async () => {
    scrollBy(0, -innerHeight * 0.8);
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return scrollY;
}"""
FIRST_PAINT_AT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
SENT = """() => Object.fromEntries(
    performance.getEntries().filter((one) => one.transferSize && !/cards|live|pass/.test(new URL(one.name).pathname))
        .concat(performance.getEntriesByType("resource").filter((one) => one.name.includes("/static/")))
        .map((one) => [new URL(one.name).pathname, one.transferSize || one.encodedBodySize]))"""
"""Script that returns path -> bytes transferred for a page."""
ELEMENT_COUNT = "document.querySelectorAll('*').length"


class Measured(NamedTuple):
    cold: float
    """Milliseconds from the request to the first paint, for the first page that the daemon has ever made."""
    first_paint: float
    loading: list[float]
    """Durations of long tasks while the page was loading."""
    scrolling: list[float]
    """Durations of long tasks while it was scrolled, layout and parsing included."""
    script: list[float]
    """Time of our scripts in long frames, including the layout that they forced."""
    work: list[float]
    """Processor time of the page's main thread for each step of the scrolling, in milliseconds."""
    seen: int
    """Number of cards that were scrolled past."""
    elements: int
    """Maximum number of elements in the document."""


def fill(site: Site, events: int) -> None:
    agent = site.publish("long", "claude-stream")
    for lines in rounds(events):
        agent.write(lines.rstrip(b"\n"))
    agent.finish()


def measure(site: Site, tab: Tab, steps: int) -> Measured:
    page = tab.page
    tab.context.add_init_script(WATCH)
    site.enter(page, session=SESSION)
    page.locator('#connection[data-state="live"]').wait_for()
    cold = page.evaluate(FIRST_PAINT_AT)
    page.reload()
    page.locator('#connection[data-state="live"]').wait_for()
    first_paint = page.evaluate(FIRST_PAINT_AT)
    begun = page.evaluate("performance.now()")
    elements, oldest = page.evaluate(ELEMENT_COUNT), _oldest(page)
    newest = oldest
    devtools = tab.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    worked = [_worked(devtools)]
    for _ in range(steps):
        if page.evaluate(STEP) == 0:
            page.locator("#feed[aria-busy=false]").wait_for()
            if page.locator("#older").is_hidden():
                break
        elements = max(elements, page.evaluate(ELEMENT_COUNT))
        worked.append(_worked(devtools))
    oldest = _oldest(page)
    tasks: list[list[float]] = page.evaluate("tasks")
    frames: list[list[float]] = page.evaluate("frames_")
    return Measured(
        cold,
        first_paint,
        [duration for start, duration in tasks if start < begun],
        [duration for start, duration in tasks if start >= begun],
        [duration for start, *scripts in frames if start >= begun for duration in scripts],
        [after - before for before, after in pairwise(worked)],
        newest - oldest,
        elements,
    )


def _worked(devtools: CDPSession) -> float:
    """Return how long the page's main thread has worked so far, in milliseconds."""
    metrics = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
    return 1_000 * float(metrics["TaskDuration"])


def _oldest(page: Page) -> int:
    return int(page.locator("#feed > section").first.get_attribute("data-first") or 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    with TemporaryDirectory() as directory, Site(Path(directory)) as site, launched() as browser, Tab(browser) as tab:
        started = time.monotonic()
        fill(site, options.events)
        print(f"{options.events:,} events in one session, ingested in {time.monotonic() - started:.0f} s", flush=True)
        measured = measure(site, tab, options.steps)
    return report(measured)


def report(measured: Measured) -> int:
    wrong = 0
    rows: list[tuple[str, Any, bool]] = [
        ("first paint, the very first", f"{measured.cold:.0f} ms", measured.cold < 2 * FIRST_PAINT),
        ("first paint", f"{measured.first_paint:.0f} ms", measured.first_paint < FIRST_PAINT),
        ("long tasks while loading", _summary(measured.loading), True),
        ("events scrolled past", f"{measured.seen:,}", measured.seen > 0),
        ("long tasks while scrolling", _summary(measured.scrolling), not measured.scrolling),
        ("our script in long frames", _summary(measured.script), max(measured.script, default=0) < LONG),
        ("elements at most", f"{measured.elements:,}", measured.elements < ELEMENTS),
    ]
    for name, value, holds in rows:
        wrong += not holds
        print(f"{name:<28} {value}{'' if holds else '   <- too much'}")
    return int(wrong > 0)


def _summary(durations: list[float]) -> str:
    return f"{len(durations)}, the longest {max(durations):.0f} ms" if durations else "none"


if __name__ == "__main__":
    sys.exit(main())
