"""`tooltap show`: one event in each view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.command import here, sentence
from tests.daemon.events import call, commit, result
from tests.daemon.running import Running, running
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import Display

OUTPUT = {"stdout": "a\nb\nc\n", "_happy": {"v": 2}, "_raw": {"type": "x"}}
PICTURE = Display(origin="provider", output_id="s:0:o8", mime_type="image/png")
LONG = "zwölf\n" * 300_000
"""1.8 MiB: more than one reply can hold."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon")) as one:
        data = LONG.encode()
        half = len(data) // 2
        one.commit(
            commit(
                call("c"),
                result("c", output=OUTPUT),
                result("c", output=OUTPUT, display=Display(origin="rule", text="3 lines")),
                OutputChunk("s:1:o0", 0, data[:half], "text/plain"),
                OutputChunk("s:1:o0", half, data[half:], "text/plain"),
                result("c", output=OUTPUT, display=Display(origin="rewriter", output_id="s:1:o0")),
                result("c", output=OUTPUT, display=Display(origin="provider", output_id="s:0:o9")),
                result("c", output=OUTPUT, assistant_view="unknown"),
                result("c", output=OUTPUT, silent=True),
                result("c", output=OUTPUT, display=PICTURE),
                state="ended",
            )
        )
        yield one


PLAIN, RULED, LONG_VIEW, EXPIRED, UNKNOWN, SILENT, PICTURED = range(2, 9)


def show(daemon: Running, seq: int, view: str) -> dict[str, Any]:
    finished = here("show", "--socket", daemon.path, seq, "--view", view)
    assert (finished.returncode, finished.stderr) == (0, b"")
    event: dict[str, Any] = json.loads(finished.stdout)
    return event


def test_without_display_the_assistant_view_is_shown(daemon: Running) -> None:
    assert show(daemon, PLAIN, "display") == show(daemon, PLAIN, "assistant")
    assert show(daemon, PLAIN, "assistant")["output"] == {"stdout": "a\nb\nc\n", "_happy": {"v": 2}}
    assert show(daemon, PLAIN, "raw")["output"] == OUTPUT


def test_display_replaces_output(daemon: Running) -> None:
    display = show(daemon, RULED, "display")
    assistant = show(daemon, RULED, "assistant")

    assert (display["display"], "output" in display) == ({"origin": "rule", "text": "3 lines"}, False)
    assert (assistant["output"]["stdout"], "display" in assistant) == ("a\nb\nc\n", False)


def test_display_body_is_fetched_completely(daemon: Running) -> None:
    assert show(daemon, LONG_VIEW, "display")["display"]["text"] == LONG
    assert "text" not in show(daemon, LONG_VIEW, "raw")["display"]
    assert show(daemon, PICTURED, "display")["display"]["outputId"] == "s:0:o8"


def test_expired_display_is_reported(daemon: Running) -> None:
    finished = here("show", "--socket", daemon.path, EXPIRED)

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert "'s:0:o9'" in sentence(finished)
    assert show(daemon, EXPIRED, "assistant")["output"]["stdout"] == "a\nb\nc\n"


def test_assistant_view_can_be_unknown(daemon: Running) -> None:
    finished = here("show", "--socket", daemon.path, UNKNOWN, "--view", "assistant")
    event = json.loads(finished.stdout)

    assert (event["assistantView"], "output" in event) == ("unknown", False)
    assert sentence(finished) == "the agent's stream does not say what the model saw of this result"
    assert show(daemon, UNKNOWN, "display")["output"]["stdout"] == "a\nb\nc\n"


def test_silent_result_is_hidden_from_the_user(daemon: Running) -> None:
    assert "output" not in show(daemon, SILENT, "display")
    assert show(daemon, SILENT, "assistant")["output"]["stdout"] == "a\nb\nc\n"
