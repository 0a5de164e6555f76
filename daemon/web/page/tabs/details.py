"""The tab *Details*: everything that is known of a session, its streams, and the commands that show more of it."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from tooltap.daemon.formats import amount, counted, spent
from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.sessions.listing import STATUSES, origins_of, status_of
from tooltap.daemon.sessions.resuming import fork_of, in_shell, resume_of
from tooltap.daemon.show.markup import product
from tooltap.daemon.system.shell import can_be_pasted, shell_line
from tooltap.normalizers.wire.values import records, string
from tooltap.protocol.events import SessionEvent, decode

STREAMS = 50
SERVERS = 200
TOOLS = 1_000
STATES = {"open": "open", "suspended": "its tap is disconnected and may return", "ended": "ended"}


class Announced:
    """Digest of a session's own events: the latest value of each fact."""

    KINDS: ClassVar[tuple[str, ...]] = ("session",)

    def __init__(self) -> None:
        self.mode: str | None = None
        self.tools: list[str] = []
        self.commands: list[str] = []
        self.servers: list[tuple[str, str]] = []
        """MCP servers: name and status."""

    def note(self, seq: int, body: bytes) -> None:
        event = decode(body)
        if not isinstance(event, SessionEvent) or event.agent is not None or event.replay:
            return
        self.mode = event.mode or self.mode
        self.tools = event.tools[:TOOLS] if event.tools is not None else self.tools
        self.commands = event.commands[:TOOLS] if event.commands is not None else self.commands
        if event.mcp_servers is not None:
            servers = records(event.mcp_servers)[:SERVERS]
            self.servers = [(string(one.get("name")) or "?", string(one.get("status")) or "") for one in servers]


class Fact(NamedTuple):
    name: str
    value: str
    is_code: bool = False


class Command(NamedTuple):
    does: str
    line: str


class Stream(NamedTuple):
    name: str
    facts: list[Fact]


def details_values(known: Announced, row: dict[str, Any], streams: list[StreamInfo]) -> dict[str, Any]:
    """Return the values for the template. `row`: of the session."""
    return {
        "facts": [fact for fact in _facts(known, row) if fact.value],
        "first": row.get("firstTs"),
        "last": row.get("lastTs"),
        "errors": row.get("errors") or 0,
        "tools": known.tools,
        "commands": known.commands,
        "servers": known.servers,
        "streams": [_stream(one) for one in streams[:STREAMS]],
        "hidden_streams": max(len(streams) - STREAMS, 0),
        "lines": _lines(streams),
        "to_copy": [*_to_continue(row), *_to_copy(str(row["session"]))],
    }


def _facts(known: Announced, row: dict[str, Any]) -> list[Fact]:
    version = row.get("agentVersion")
    models = row.get("models") or [row.get("model")]
    return [
        Fact("Session", str(row["session"]), True),
        Fact("Title", row.get("title") or ""),
        *(Fact(one.words.capitalize(), one.session, True) for one in origins_of(row)),
        Fact("State", STATUSES.get(status_of(row), status_of(row))),
        Fact("Agent", f"{product(row['provider'])} {version or ''}".strip()),
        Fact("Model" if len(models) == 1 else "Models", ", ".join(model for model in models if model)),
        Fact("Machine", row.get("host") or "", True),
        Fact("Folder", row.get("cwd") or "", True),
        Fact("Project", "" if row.get("project") == row.get("cwd") else row.get("project") or "", True),
        Fact("Branch", row.get("branch") or "", True),
        Fact("Kept", "pinned: retention never deletes it" if row.get("pinned") else ""),
        Fact("Permissions", known.mode or "", True),
        Fact("Worked for", spent(row.get("durationMs")) or ""),
        Fact("Turns", f"{row['turns']:,}" if row.get("turns") else ""),
        Fact("Calls", _calls(row)),
        Fact("Events", f"{row['events']:,}: numbers {row['firstSeq']:,} to {row['lastSeq']:,}"),
    ]


def _calls(row: dict[str, Any]) -> str:
    families = sorted((row.get("families") or {}).items(), key=lambda one: -one[1])
    by_family = ", ".join(f"{number:,} {family}" for family, number in families)
    return f"{row['calls']:,}: {by_family}" if by_family else f"{row['calls']:,}"


def _stream(info: StreamInfo) -> Stream:
    if info.remote is not None:
        host = info.stream.partition("/")[0]
        of_remote = [Fact("Format", info.dialect or "", True), Fact("Source", f"the daemon of {host}")]
        return Stream(info.stream, [*of_remote, Fact("State", STATES[info.state])])
    counts = info.statistics
    skipped = [f"{number:,} {reason}" for reason, number in sorted(counts.skipped.items(), key=lambda one: -one[1])]
    facts = [
        Fact("Format", info.dialect or "not recognised yet", True),
        Fact("Source", "the file in which the agent stores it" if info.followed else "lines that a tap has sent"),
        Fact("State", STATES[info.state]),
        Fact("Lines", f"{counts.lines:,}, {amount(counts.bytes)}B"),
        Fact("With events", f"{counts.with_events:,}"),
        Fact("Skipped", ", ".join(skipped)),
        Fact("Not understood", f"{counts.unparsed:,}" if counts.unparsed else ""),
        Fact("Repaired", f"{counts.repaired:,}" if counts.repaired else ""),
    ]
    return Stream(info.stream, [fact for fact in facts if fact.value])


def _lines(streams: list[StreamInfo]) -> str:
    """Describe how many lines there are, and in which classes: every line has exactly one."""
    if all(one.remote is not None for one in streams):
        return "Their lines are on the machine from which they were read."
    lines = sum(one.statistics.lines for one in streams)
    with_events = sum(one.statistics.with_events for one in streams)
    unparsed = sum(one.statistics.unparsed for one in streams)
    words = [f"{with_events:,} with events", f"{lines - with_events - unparsed:,} skipped"]
    return f"{counted(lines, 'line')}: {', '.join([*words, f'{unparsed:,} not understood'])}"


def _to_continue(row: dict[str, Any]) -> list[Command]:
    commands = [("Resume it with its agent", resume_of(row)), ("Resume a copy of it", fork_of(row))]
    return [Command(does, in_shell(words, row.get("cwd"))) for does, words in commands if words is not None]


def _to_copy(session: str) -> list[Command]:
    if not can_be_pasted([session]):
        return []
    name = shell_line(session)
    given = f"-- {name}" if name.startswith("-") else name
    return [
        Command("Read it in a terminal", f"tooltap show {given}"),
        Command("Follow it", f"tooltap tail --mode verbose --session={name}"),
        Command("List the files that it changed", f"tooltap files {given}"),
        Command("Write it as a page to keep", f"tooltap export --html -o session.html {given}"),
    ]
