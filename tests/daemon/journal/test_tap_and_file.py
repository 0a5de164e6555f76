"""A session that is tapped, and whose file is read as well: what each agent states counts once, in whatever order the
two are read.

The recordings are against a model that states 1,200 tokens in and 42 out for each request. Claude Code adds what was
read from the cache and written to it (900 and 300), Gemini CLI the thoughts (7). So the right sums follow from the
number of requests. Where the two recordings are of two runs of one script, the file gets the ids of the tap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import orjson
import pytest

from tests.daemon.events import commit, event, info
from tests.daemon.sessions.test_counters import step, total
from tests.daemon.sessions.test_one_sum import check_sums
from tests.test_layout import ROOT
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.taps.follow.overlap import OwnFiles, Span, keeps
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.wire.recording import Line, read_recording
from tooltap.protocol.events import SessionEvent, Turn, Usage, decode
from tooltap.protocol.frames import UsageRequest

pytestmark = pytest.mark.anyio

TAP = "run-1"
NOW = 1_795_300_000_000
"""Time of a line that states none."""
SESSION = "4d103117-72f2-41b8-8329-c9ec826944da"


class Source(NamedTuple):
    dialect: str
    lines: Sequence[Line]


class Case(NamedTuple):
    tap: str
    files: tuple[str, ...]
    requests: int
    prompt: int = 1_200
    output: int = 42
    dollars: float | None = None
    """None: no cost is stated, or it is $0."""


CASES = {
    # Both its streams state $0.00732 for a request.
    "claude": Case(
        "claude-stream/claude-code-2.1.330/shell-fails",
        ("claude-transcript/claude-code-2.1.330/shell-fails",),
        requests=2,
        prompt=2_400,
        dollars=0.01464,
    ),
    "codex": Case("codex-exec/codex-0.169/patch", ("codex-rollout/codex-0.169/patch",), requests=2),
    "codex-app-server": Case(
        "codex-app-server/codex-0.169/shell-fails", ("codex-rollout/codex-0.169/patch",), requests=2
    ),
    "codex-acp": Case("acp/codex-acp-2.6.0/shell-fails", ("codex-rollout/codex-0.169/patch",), requests=2),
    "gemini": Case(
        "gemini-stream/gemini-0.61.0/shell-fails", ("gemini-chat/gemini-0.61.0/shell-fails",), requests=2, output=49
    ),
    "gemini-acp": Case(
        "acp/gemini-0.61.0/shell-fails", ("gemini-chat/gemini-0.61.0/shell-fails",), requests=2, output=49
    ),
    "qwen": Case("qwen-stream/qwen-0.24.4/shell-fails", ("qwen-chat/qwen-0.24.4/shell-fails",), requests=2),
    "qwen-acp": Case(
        "acp/qwen-0.24.4/subagent",
        ("qwen-chat/qwen-0.24.4/subagent", "qwen-chat/qwen-0.24.4/subagent.agent"),
        requests=5,
    ),
    "opencode": Case(
        "opencode-run/opencode-1.18.33/failing-shell", ("opencode-db/opencode-1.18.33/shell-fails",), requests=2
    ),
    "opencode-acp": Case("acp/opencode-1.18.33/shell-fails", ("opencode-db/opencode-1.18.33/shell-fails",), requests=2),
    "cline": Case("cline-json/cline-3.0.65/shell-failing", ("cline-session/cline-3.0.65/shell-fails",), requests=2),
    "pi": Case("pi-json/pi-0.73.1/tool-errors", ("pi-session/pi-0.73.1/tool-errors",), requests=3),
    "kimi": Case("kimi-json/kimi-code-2.1.0/shell-failing", ("kimi-session/kimi-code-2.1.0/shell-fails",), requests=2),
    "vibe": Case("vibe-json/vibe-3.0.2/shell", ("vibe-session/vibe-3.0.3/shell-fails",), requests=2),
    "copilot": Case("copilot", ("copilot",), requests=2),
    "copilot-acp": Case("acp/copilot-1.0.102/shell", ("copilot",), requests=2),
}


def copilot(session: str, *, printed: bool) -> list[Line]:
    """Return what Copilot CLI 1.0.102 prints with a model of the user's own, which has no tokens; or its session file,
    with a record of each request, and what the process has used in all."""

    def used(requests: int) -> dict[str, int]:
        counts = {"inputTokens": 1_200, "outputTokens": 42, "cacheReadTokens": 900, "reasoningTokens": 7}
        return {name: requests * count for name, count in counts.items()}

    def line(kind: str, second: int, **data: Any) -> dict[str, Any]:
        place = {"id": f"{second}", "parentId": f"{second - 1}", "timestamp": f"2026-11-26T11:16:{second}.000Z"}
        return {"type": kind, "data": data, **place}

    def message(second: int, request: int, text: str) -> dict[str, Any]:
        named = {"messageId": f"m{request}", "apiCallId": f"chatcmpl-{request}"}
        return line("assistant.message", second, **named, model="gpt-5.1", content=text)

    def record(second: int, request: int) -> list[dict[str, Any]]:
        usage = {"model": "gpt-5.1", **used(1), "apiCallId": f"chatcmpl-{request}"}
        return [] if printed else [line("session.usage_record", second, usage=usage)]

    start = {"sessionId": session, "copilotVersion": "1.0.102", "context": {"cwd": "/ws", "branch": "main"}}
    metrics = {"gpt-5.1": {"requests": {"count": 2}, "usage": used(2)}}
    result = {
        "type": "result",
        "timestamp": "2026-11-26T11:16:19.000Z",
        "sessionId": session,
        "exitCode": 0,
        "usage": {},
    }
    values = [
        *([] if printed else [line("session.start", 10, **start)]),
        line("user.message", 11, content="List."),
        line("assistant.turn_start", 12, turnId="0"),
        *record(13, 1),
        message(14, 1, "Listing."),
        *record(15, 2),
        message(16, 2, "Done."),
        line("assistant.turn_end", 17, turnId="0"),
        result if printed else line("session.shutdown", 18, modelMetrics=metrics),
    ]
    return [Line(orjson.dumps(value)) for value in values]


def source(name: str, *, printed: bool) -> Source:
    if name == "copilot":
        return Source("copilot-json", copilot(SESSION, printed=printed))
    path = ROOT / "tests" / "fixtures" / f"{name}.jsonl"
    return Source(name.partition("/")[0], read_recording(path.read_bytes()))


def events_of(one: Source) -> list[Produced]:
    normalizer = StreamNormalizer(Context(stream="s"), one.dialect)
    outputs = [output for line in one.lines for output in normalizer.feed(line.data, line.t or NOW, line.direction)]
    return [output for output in [*outputs, *normalizer.close("end")] if isinstance(output, Produced)]


def of_one_run(tap: Source, file: Source) -> Source:
    """Return the file with the requests that the tap names."""

    def requests(events: Sequence[Produced]) -> list[str]:
        used = [one.event for one in events if one.kind == "usage"]
        return [one.request for one in used if isinstance(one, Usage) and one.request is not None]

    names = dict(zip(requests(events_of(file)), requests(events_of(tap)), strict=False))
    lines = []
    for line in file.lines:
        data = line.data
        for name, other in names.items():
            data = data.replace(name.encode(), other.encode()) if isinstance(data, bytes) else data
        lines.append(line._replace(data=data))
    return Source(file.dialect, lines)


class Reader:
    """Reads a stream of the session into a journal, line by line."""

    def __init__(self, journal: Journal, name: str, read: Source, tap: Source) -> None:
        self.left = list(read.lines)
        self.name = name
        self._journal = journal
        last = events_of(tap)[-1]
        self._session, self._ts = last.session, last.ts
        self._normalizer = StreamNormalizer(Context(stream=name), read.dialect)
        self._committed = 0
        statistics = self._normalizer.statistics
        taps = {TAP: info(TAP, dialect=tap.dialect)}
        of_file = info(name, followed=True)
        span = Span(0, math.inf, TAP)
        self._keep = None if name == TAP else keeps(of_file, statistics, 0, [span], taps, 0, 0, OwnFiles(()), {})

    async def read(self, lines: int) -> None:
        for line in self.left[:lines]:
            await self._store(self._normalizer.feed(line.data, line.t or NOW, line.direction, self._keep))
        if len(self.left) <= lines and self.name == TAP:
            await self._store(self._normalizer.close("end"))
        self.left = self.left[lines:]

    async def _store(self, outputs: Sequence[object]) -> None:
        events = [one for one in outputs if isinstance(one, Produced) and not one.partial]
        if self.name != TAP:
            # The file is of the tap's session, and of its time, however it was recorded.
            ours = {"session": self._session, "ts": self._ts}
            events = [Produced.of(msgspec.structs.replace(one.event, **ours)) for one in events]
        await self._journal.commit(commit(*events, stream=self.name, base=self._committed))
        self._committed += 1


@pytest.mark.parametrize("order", ["tap", "file", "both"])
@pytest.mark.parametrize("agent", CASES)
async def test_what_both_state_counts_once(journal: Journal, agent: str, order: str) -> None:
    case = CASES[agent]
    tap = source(case.tap, printed=True)
    readers = [Reader(journal, TAP, tap, tap)]
    for number, name in enumerate(case.files):
        readers.append(Reader(journal, f"file-{number}", of_one_run(tap, source(name, printed=False)), tap))
    if order == "file":
        readers.reverse()
    while any(one.left for one in readers):
        for one in readers:
            await one.read(1 if order == "both" else len(one.left))

    (session,) = [one for one in await journal.sessions() if one.get("inputTokens")]
    sums = case.requests * case.prompt, case.requests * case.output
    assert (session["inputTokens"], session["outputTokens"]) == sums
    assert session.get("estimatedOutputTokens") is None
    if case.dollars is not None:
        assert session["costUsd"] == pytest.approx(case.dollars)
    for by in ("day", "model", "session", "subagent"):
        report = await journal.usage(UsageRequest(by=by))
        assert (report.total.input_tokens, report.total.output_tokens) == sums
    stored = [decode(one.body) for one in (await journal.read(0))[0]]
    check_sums(session["session"], [one for one in stored if not one.replay])


async def test_facts_of_the_file(journal: Journal) -> None:
    """Copilot prints neither folder nor branch, and its session's id last: the file is read when the tap has ended."""
    tap = source("copilot", printed=True)
    for name, read in ((TAP, tap), ("file", source("copilot", printed=False))):
        reader = Reader(journal, name, read, tap)
        await reader.read(len(reader.left))
    (session,) = await journal.sessions()
    assert (session["session"], session["cwd"], session["branch"]) == (SESSION, "/ws", "main")
    assert (session["agentVersion"], session["model"]) == ("1.0.102", "gpt-5.1")
    assert (session["turns"], session["status"]) == (1, "completed")


async def test_session_that_is_resumed_under_a_tap(journal: Journal) -> None:
    """What its file states while the tap reports the turn says nothing of what the agent does now. The file has a total
    of $0.5 from before; the process has used $0.1, which the file has not stated when the session ends."""
    before = (
        event(SessionEvent, "file", 1, state="started"),
        event(Turn, "file", 2, state="started", turn="t1"),
        event(Turn, "file", 3, state="completed", turn="t1"),
    )
    stated = total("file", 500, 0, 0.5, counter="lineage", line=3, id="file:3:1", session="session-1")
    await journal.commit(commit(*before, stated, stream="file", lines=3))
    start = event(SessionEvent, TAP, 1, state="resumed"), event(Turn, TAP, 2, state="started", turn="t1")
    await journal.commit(
        commit(*start, total(TAP, 100, 0, 0.1, counter="process", line=2, id="tap"), stream=TAP, lines=2)
    )
    beside = step("file", 100, id="file:4:0", line=4, request="r", beside=TAP)
    await journal.commit(
        commit(beside, event(SessionEvent, "file", 4, 1, state="updated", branch="main"), stream="file", base=3)
    )

    (session,) = await journal.sessions()
    assert (session["status"], session["turns"], session["branch"]) == ("running", 2, "main")
    assert (session["inputTokens"], session["costUsd"]) == (600, pytest.approx(0.6))

    ends = event(Turn, TAP, 3, state="completed", turn="t1"), event(SessionEvent, TAP, 3, 1, state="ended")
    await journal.commit(commit(*ends, stream=TAP, base=2))
    late = step("file", 10, id="file:5:0", line=5, request="s", beside=TAP)
    await journal.commit(commit(late, stream="file", base=4))
    (session,) = await journal.sessions()
    last = (await journal.read(0))[0][-1].seq
    assert (session["state"], session["status"], session["lastSeq"]) == ("ended", "completed", last)
