"""An error in any one of the calls that a line passes costs that line, and nothing else.

All call sites: `make lab-containment`.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests.daemon.containment.scenario import Ran, check, published_of, run
from tests.daemon.containment.sites import Injected, Site, counting, raising_at

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
STREAMS = [
    ("claude-stream/claude-code-1.0.128/web", "acp/gemini-0.61.0/edit", "codex-exec/codex-0.120/reasoning-edit"),
    (
        "opencode-bus/opencode-1.18.33/api-error",
        "copilot-json/copilot-1.0.102/search",
        "kimi-json/kimi-1.40.0/wire-shell",
    ),
    ("codex-app-server/codex-0.169/web-search", "gemini-stream/gemini-0.61.0/mcp", "legacy/happy-written/acp"),
    (
        "openai-responses/responses-written/ids-change",
        "tooltap-trace/tooltap-0.1/recorder-oddities",
        "acp/claude-agent-acp-0.100.0/denied",
    ),
]
"""Recordings whose streams are beside each other."""
ERRORS = [Injected, MemoryError, TypeError, RecursionError]
SEED = int(os.environ.get("TOOLTAP_SEED", "1"))
SAMPLE = int(os.environ.get("TOOLTAP_SITES", "4"))
"""Call sites of each group; 0: all."""
LINES = 30
GROUPS = STREAMS[SEED % 2 : SEED % 2 + 1] if SAMPLE else STREAMS


def _run(names: tuple[str, ...]) -> tuple[Ran, list]:  # type: ignore[type-arg]
    streams = published_of([FIXTURES / f"{name}.jsonl" for name in names], LINES)
    with tempfile.TemporaryDirectory() as directory:
        return anyio.run(run, Path(directory), streams), streams


# A generator that is dropped before its first step is entered once more, to be closed: nothing can raise there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "names", STREAMS if not SAMPLE else STREAMS[SEED % 2 : SEED % 2 + 1], ids=lambda names: names[0]
)
def test_an_error_at_any_call_site_costs_one_line(names: tuple[str, ...]) -> None:
    undisturbed, streams = _run(names)
    check(undisturbed, streams)
    with counting() as counts:
        again, _ = _run(names)
    assert again.events == undisturbed.events
    chance = random.Random(SEED)
    sites = sorted(counts)
    problems: list[str] = []
    done: Counter[str] = Counter()
    for site in chance.sample(sites, SAMPLE) if SAMPLE else sites:
        number, error = chance.choice((1, chance.randint(1, counts[site]))), chance.choice(ERRORS)
        try:
            done[_disturb(names, undisturbed, site, number, error)] += 1
        except Exception as problem:
            problems.append(f"{error.__name__} at pass {number} of {site}: {problem!r:.300}")
    print(f"seed {SEED}, {len(sites)} call sites of {names}: {dict(done)}")
    assert not problems, "\n".join(problems)


def _disturb(names: tuple[str, ...], undisturbed: Ran, site: Site, number: int, error: type[Exception]) -> str:
    """Run the streams with an error at a site. Returns how it ended."""
    with raising_at(site, number, error) as raised:
        ran, streams = _run(names)
    if not raised:  # how often it is passed depends on the threads
        return "not passed"
    check(ran, streams)
    changed = [name for name, events in ran.events.items() if events != undisturbed.events[name]]
    assert len(changed) <= 1, f"other streams have changed: {changed}"
    if not changed:
        return "costs nothing"
    return "sent again" if ran.reconnects else "costs a line"
