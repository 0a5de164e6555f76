"""What the page makes of a text takes time that grows with it and no faster: `make lab-linear` tries everything."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.daemon.show.carding import made, result
from tests.daemon.show.hostile import INPUT_KEYS, OUTPUT_KEYS, TOOL_NAMES
from tests.linear.timing import TIMED
from tests.steps import steps
from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.blocks import LEVELS, RenderContext
from tooltap.daemon.show.diff import FileDiff, between, changes_of_diff, cut
from tooltap.daemon.show.markup import ansi, code, markdown
from tooltap.daemon.show.shown import fragment_of
from tooltap.daemon.show.tree import text_or_tree
from tooltap.protocol.events import AnyEvent

WHOLE = os.environ.get("TOOLTAP_LINEAR") == "whole"
SEED = int(os.environ.get("TOOLTAP_SEED", "16"))
CONTEXT = RenderContext("full", lambda output_id: f"/api/outputs/{output_id}")
HEADS = ("", "x", "\n", "a\n", "> ", "- ", "[", "`")
PUMPS = (
    *("> ", "- ", "* a\n", "1. ", "  - ", "[", "](", "![", "[a](", "[a]: b\n", "`", "``a", "*", "_", "**a ", "~~"),
    *(
        "<",
        "<a ",
        "&",
        "&#x2",
        "\\",
        "\\\n",
        "|",
        "|a",
        "a|b\n-|-\n",
        "#",
        " ",
        "\t",
        "\n",
        "a\n===\n",
        "    a\n",
        "```\n",
    ),
    *("\r", "a\r", "a\b", "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b[1;", "\x1b[1m", "\x1b[38;5;1m", "\x1b[A"),
    "a\x1b[B",
    *(
        "a\x1b[K",
        "a\x1b[1K",
        "\x1b[2K",
        "a\x1b[2J",
        "\x1b[J",
        "\x1b[9999C",
        "a\x1b[200C\r",
        "\n\x1b[H",
        "\x1b[1A\x1b[K\n",
    ),
    *(
        "@@\n",
        "@@ -1 +1 @@\n",
        "+a\n-b\n",
        "--- a\n",
        "diff --git a/x b/x\n",
        "{",
        '{"a":',
        "[{",
        '"',
        "'",
        "/*",
        "<!--",
    ),
    *("http://a ", "http://", "a@b.c ", "é", "\u202e", "\x00", "0", "=", ";", "$(", "{{", "x=", "a: b\n", "- a: \n"),
)
TEXTS = list(itertools.product(HEADS, PUMPS))
SAMPLE = 6
SMALL, LARGE = 4_000, 64_000 if TIMED else 16_000
HUGE = 8_000_000
SECONDS_A_CHARACTER = 5e-5
"""Several times what the slowest takes of ordinary text (Markdown: 1e-5), so that a slow machine passes."""
EXPONENT = 1.1
GROWTH = (LARGE / SMALL) ** (EXPONENT + 0.25)
"""The exponent of one measurement is uncertain."""
STEPS_A_SECOND = 7_000_000
NOISE = 0.1
"""Seconds below which nothing is compared."""
ROWS = 100_000
LONGEST_CARD = 10.0
"""Seconds of a card whose event is as long as an event can be: eight texts."""

RENDERERS: dict[str, Callable[[str], object]] = {
    "markdown": markdown,
    "ansi": ansi,
    "screen": final_screen,
    "python": partial(code, language="python", first_line=1),
    "bash": partial(code, language="bash"),
    "json": partial(code, language="json"),
    "diff": lambda text: cut(changes_of_diff(text), 2_000),
    "changed": lambda text: cut([FileDiff.of("", "", between(text, text[1:] + "x")[0])], 2_000),
    "replaced": lambda text: cut([FileDiff.of("", "", between(text[::2], text[::-1])[0])], 2_000, brief=True),
    "tree": lambda text: text_or_tree(text, CONTEXT, "/x"),
}


def sample(name: str) -> list[tuple[str, str]]:
    return TEXTS if WHOLE else random.Random(f"{SEED} {name}").sample(TEXTS, SAMPLE)


def text_of(head: str, pump: str, size: int) -> str:
    heads = head * (size // 2 // len(head)) if head else ""
    return heads + pump * max(1, (size - len(heads)) // len(pump))


def seconds(render: Callable[[], object]) -> float:
    """Processor time of this thread in the laboratory; otherwise what the steps would take, always the same."""
    if not TIMED:
        return steps(render) / STEPS_A_SECOND
    began = time.thread_time()
    render()
    return time.thread_time() - began


def is_quick(render: Callable[[], object], limit: float) -> bool:
    """One try of four is enough: a busy machine only makes it seem slower than it is."""
    return any(seconds(render) < limit for _ in range(4 if TIMED else 1))


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", RENDERERS)
def test_texts_take_linear_time(name: str) -> None:
    render = RENDERERS[name]
    for head, pump in sample(name):
        long = text_of(head, pump, LARGE)
        assert is_quick(partial(render, long), NOISE + len(long) * SECONDS_A_CHARACTER), (head, pump)
        if name not in ("python", "bash", "json") and not is_quick(partial(render, long), NOISE):
            # The time of lexers has a limit.
            short = min(seconds(partial(render, text_of(head, pump, SMALL))) for _ in range(3))
            assert is_quick(partial(render, long), NOISE + GROWTH * short), (head, pump)


@pytest.mark.parametrize("name", RENDERERS)
def test_texts_of_megabytes_take_less(name: str) -> None:
    """What is too long is not parsed, or no further than to a limit."""
    render = RENDERERS[name]
    for head, pump in sample(name)[: None if WHOLE else 2]:
        long = text_of(head, pump, HUGE if WHOLE else HUGE // 40)
        assert is_quick(partial(render, long), 0.5 + len(long) * 2e-6), (head, pump)


def cards(*events: AnyEvent) -> None:
    for event, level in itertools.product(events, LEVELS):
        fragment_of(event, RenderContext(level, CONTEXT.url, event.outputs or {}))


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", TOOL_NAMES if WHOLE else random.Random(SEED).sample(TOOL_NAMES, 2))
def test_cards_of_the_longest_events_are_quick(name: str) -> None:
    """An event has 512 kB at most, a string in it 64 kB."""
    for head, pump in random.Random(f"{SEED} {name}").sample(TEXTS, 20 if WHOLE else 1):
        long = text_of(head, pump, 32_000)
        for key, output_key in itertools.zip_longest(INPUT_KEYS, OUTPUT_KEYS):
            given: dict[str, Any] = {} if key is None else {key: long}
            answered: dict[str, Any] = {} if output_key is None else {output_key: long}
            called = made("tool-call", callId="c", name=name, status="running", input=given)
            card = partial(cards, called, result(name, answered))
            assert is_quick(card, LONGEST_CARD / 4), (name, key, output_key, head, pump)


@pytest.mark.parametrize("name", TOOL_NAMES if WHOLE else random.Random(SEED).sample(TOOL_NAMES, 3))
def test_cards_of_many_rows_are_quick(name: str) -> None:
    row: dict[str, Any] = {"content": "a", "path": "b", "title": "c", "url": "http://d", "line": 1, "kind": "add"}
    for rows in ([row] * (ROWS // 20), ["a"] * ROWS, list(range(ROWS))):
        for keys, make in ((INPUT_KEYS, _call), (OUTPUT_KEYS, result)):
            for key in keys if WHOLE else random.Random(f"{SEED} {name}").sample(list(keys), 3):
                event = make(name, {key: rows})
                assert is_quick(partial(cards, event), 2.0), (name, key)


def _call(name: str, given: dict[str, Any]) -> AnyEvent:
    return made("tool-call", callId="c", name=name, status="running", input=given)


def test_deep_json_is_quick() -> None:
    for deep in ("[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000):
        assert is_quick(partial(text_or_tree, deep, CONTEXT, "/x"), 1.0)
