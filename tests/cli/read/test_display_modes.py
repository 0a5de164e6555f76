"""`tail` over recordings of the same task: the output is the same for every agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.running import Running, running
from tests.same_task import PROVIDERS, SHELL, SHELL_FAILS
from tests.test_layout import ROOT
from tooltap.cli.common.render import Renderer
from tooltap.daemon.show.skins import display
from tooltap.daemon.show.skins.display import PROJECTIONS
from tooltap.protocol.display import DisplayEvent, DisplayToolUse
from tooltap.protocol.events import Event, Usage

PREVIEW = "echo partial output; echo 'boom: somethi"
SAID = b"The command failed with exit code 3.\n"
SESSIONS = {f"fails/{name}": one for name, one in SHELL_FAILS.items()} | {
    f"shell/{name}": one for name, one in SHELL.items()
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon that holds every session as its own stream."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for stream, session in SESSIONS.items():
            arguments = ["--socket", one.path, "--stream", stream, "--dialect", session.dialect]
            assert here("ingest", *arguments, session.path).returncode == 0
        yield one


def tail(daemon: Running, stream: str, mode: str) -> bytes:
    arguments = ["--no-follow", "--after", "start", "--mode", mode, "--stream", stream]
    finished = here("tail", "--socket", daemon.path, *arguments)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout


def shape(output: bytes) -> list[str]:
    """Markers of tools, and texts. The other lines differ: not every agent repeats its prompt, requests permission,
    emits notices, or reports that a command failed."""
    lines = [line for line in output.decode().splitlines() if line and line[0] not in "─>?!"]
    return [re.sub(r"^[✓✗] (\S+).*", r"● \1", re.sub(r"^▸ (\S+).*", r"▸ \1", line)) for line in lines]


# -- verbose ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHELL_FAILS)
def test_verbose_markers_are_the_same_for_every_agent(daemon: Running, name: str) -> None:
    shown = tail(daemon, f"fails/{name}", "verbose")

    assert shape(shown) == ["▸ Bash", "● Bash", SAID.decode().strip()]
    assert re.search(rf"^[✓✗] Bash {re.escape(PREVIEW)}", shown.decode(), re.MULTILINE)


@pytest.mark.parametrize("name", SHELL)
def test_markers_and_text_keep_their_order(daemon: Running, name: str) -> None:
    shown = tail(daemon, f"shell/{name}", "verbose")

    assert shape(shown) == ["Running it.", "▸ Bash", "● Bash", "src has app.py and util.py."]


def test_burst_looks_like_a_stream(daemon: Running) -> None:
    """But for how long the call took."""
    burst, stream = (tail(daemon, f"fails/{name}", "verbose") for name in ("openai-compatible", "gemini"))

    assert burst.splitlines()[2:] == stream.replace(b" (0.1 s)", b"").splitlines()[2:]


# -- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHELL_FAILS)
def test_text_mode_has_no_markers(daemon: Running, name: str) -> None:
    assert tail(daemon, f"fails/{name}", "text") == SAID


def test_text_mode_says_on_stderr_that_a_turn_failed(tmp_path: Path) -> None:
    recording = ROOT / "tests" / "fixtures" / "claude-stream" / "claude-code-2.1.330" / "api-error.jsonl"
    with running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, "--stream", "error", recording).returncode == 0
        finished = here("tail", "--socket", daemon.path, "--no-follow", "--after", "start")

    session = json.loads(recording.read_bytes().splitlines()[0])["session_id"]
    assert finished.stderr.decode() == f"tooltap: claude {session}: the turn failed: api_error\n"


def claude(line: Any) -> Iterator[str]:
    if line["type"] == "assistant":
        yield from (block["text"] for block in line["message"]["content"] if block["type"] == "text")


def codex(line: Any) -> Iterator[str]:
    if line["type"] == "item.completed" and line["item"]["type"] == "agent_message":
        yield line["item"]["text"]


def gemini(line: Any) -> Iterator[str]:
    if line["type"] == "message" and line["role"] == "assistant":
        yield line["content"]


def opencode(line: Any) -> Iterator[str]:
    if line["type"] == "text":
        yield line["part"]["text"]


def openai(line: Any) -> Iterator[str]:
    yield from (choice["message"]["content"] or "" for choice in line.get("choices", ()))


READERS: dict[str, Callable[[Any], Iterator[str]]] = dict(
    zip(PROVIDERS, (claude, codex, gemini, opencode, openai), strict=True)
)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_text_is_byte_identical_to_agents_lines(daemon: Running, provider: str) -> None:
    """The expected text is extracted from the recording by minimal code for its format."""
    session = SHELL_FAILS[provider]
    lines = [json.loads(line) for line in session.path.read_bytes().splitlines() if line]
    text = "".join(text for line in lines for text in READERS[provider](line))

    assert text
    assert tail(daemon, f"fails/{provider}", "text") == text.encode() + b"\n"


# -- json ---------------------------------------------------------------------------------------------------------


def test_json_mode_does_not_decode_events(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("an event was decoded")

    for place in (
        "cli.common.render.decode_display",
        "cli.common.render.Renderer.render",
        "daemon.hub.display_body",
    ):
        monkeypatch.setattr(f"tooltap.{place}", fail)
    stream = "fails/claude"
    with daemon.subscribe(after="start", follow=False, filter={"stream": [stream]}) as wire:
        journaled = [line for line in iter(wire.line, b"") if not line.startswith(b'{"op"')]

    assert len(journaled) > 5
    assert tail(daemon, stream, "json") == b"".join(journaled)


# -- tools --------------------------------------------------------------------------------------------------------


def tool_use(name: str, arg: str = "") -> str:
    envelope: dict[str, Any] = {"id": "s:1:0", "stream": "s", "session": "1", "provider": "claude"}
    [line] = Renderer(verbose=True, colour=False).lines(DisplayToolUse(**envelope, call_id="c", name=name, arg=arg))
    return line


@pytest.mark.parametrize("name", ["Read", "Write", "Edit", "Bash", "Grep", "Glob", "Task"])
def test_known_tool_shows_glyph_name_and_preview(name: str) -> None:
    assert tool_use(name, "src/app.py") == f"▸ {name} src/app.py"


def test_unknown_tool_shows_its_name() -> None:
    assert tool_use("frobnicate") == "▸ frobnicate"
    assert tool_use("mcp__server__ping") == "▸ server · ping"
    assert tool_use("\x1b[2J" + "x" * 200) == "▸ ␛[2J" + "x" * 95 + "…"


# -- a further kind -----------------------------------------------------------------------------------------------


class DisplayCost(DisplayEvent, tag="cost"):
    """A kind that does not exist yet."""

    tokens: int


@pytest.mark.parametrize("provider", PROVIDERS)
def test_new_kind_changes_no_output(daemon: Running, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def cost(usage: Usage) -> DisplayEvent:
        return DisplayCost(
            id=usage.id,
            stream=usage.stream,
            session=usage.session,
            provider=usage.provider,
            tokens=usage.output_tokens or 0,
        )

    stream = f"fails/{provider}"
    before = [tail(daemon, stream, mode) for mode in ("text", "verbose", "json")]
    events = SHELL_FAILS[provider].events()
    projections: dict[type[Event], Any] = {**PROJECTIONS, Usage: cost}
    monkeypatch.setattr(display, "PROJECTIONS", projections)
    with daemon.subscribe(after="start", follow=False, filter={"stream": [stream]}, **{"as": "display"}) as wire:
        kinds = {line.get("kind") for line in wire.rest()}

    assert "cost" in kinds
    assert [tail(daemon, stream, mode) for mode in ("text", "verbose", "json")] == before
    assert SHELL_FAILS[provider].events() == events
