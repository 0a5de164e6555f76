"""Exports all that was selected as one SQLite file with the tables of `tables.py`.

Rows are written as events come. What is known of a session only at its end (its figures, turns, usage and files) is
computed by the code of the journal, `SessionRow`, from the same events, and written at the end of its source.
"""

from __future__ import annotations

import errno
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from tooltap import __version__
from tooltap.daemon.export.source import ExportedBody, MissingRange
from tooltap.daemon.export.tables import TABLES, VERSION, Kind, Table
from tooltap.daemon.export.values import payload_of
from tooltap.daemon.formats import counted
from tooltap.daemon.sessions.projection import PERMISSION, CallRow, Projection
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.sessions.usage import QUARTER_MS, Ledger, SessionUsage, Spent, Total, cost_of, priced
from tooltap.daemon.show.timeline import Turns
from tooltap.daemon.system.clock import iso_time, wall_clock
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import (
    AnyEvent,
    Message,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Usage,
)
from tooltap.protocol.replies import StreamState

COMMIT_EVERY = 10_000
"""Events between two commits."""
CACHE_KIB = 16_384
"""Memory of SQLite's cache; what does not fit is in the file."""
MOST = 2**63 - 1
_TYPES: dict[Kind, str] = {
    "text": "TEXT",
    "integer": "INTEGER",
    "number": "REAL",
    "boolean": "INTEGER",
    "time": "TEXT",
    "json": "TEXT",
}
_ORIGINS = ("status", "forkedFrom", "parent", "resumes")
"""What the daemon knows of a session beyond its events."""
_WHILE_WRITING = """
CREATE INDEX open_calls ON calls (session, stream, call_id);
CREATE INDEX open_permissions ON permissions (session, stream, permission_id);
"""


class Database:
    """All sources in one file. Its methods raise `OSError`."""

    ENDING: ClassVar = "sqlite"
    IS_FOLDER: ClassVar = False

    def __init__(self, path: Path, *, max_text: int, masked: bool) -> None:
        """`path`: of a new file. `max_text`: maximum bytes of a text, an input or an output."""
        self.max_text = max_text
        self.owners: dict[str, str] = {}
        """Session -> the source that has it."""
        with _errors():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.executescript(
                f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{CACHE_KIB};"
                f"{''.join(map(_created, TABLES))}{_WHILE_WRITING}"
            )
        self.run("BEGIN")
        about = {
            "tables": str(VERSION),
            "tooltap": __version__,
            "written_at": time_of(wall_clock()),
            "masked": "yes" if masked else "no",
        }
        for key, value in about.items():
            self.insert("about", key=key, value=value)
        self._notes = 0
        self._events = 0

    def source(self, name: str, stated: Mapping[str, Any] | None) -> Source:
        return Source(self, name, stated)

    def finish(self, *remarks: str) -> None:
        for remark in remarks:
            self.note("remark", None, remark)
        self.run("COMMIT")
        with _errors():
            self._db.executescript(
                f"DROP INDEX open_calls; DROP INDEX open_permissions; {''.join(map(_indexes, TABLES))} ANALYZE;"
            )
            self._db.close()

    # -- for the sources ------------------------------------------------------------------------------------------

    def insert(self, table: str, **values: Any) -> int | None:
        """Insert a row, and return its rowid; None if there is one with this key."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        row = self.run(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks}) RETURNING rowid", *values.values())
        return row[0][0] if row else None

    def note(self, kind: str, source: str | None, text: str, gap: MissingRange | None = None) -> None:
        self._notes += 1
        first, last = (None, None) if gap is None else (gap.first, gap.last)
        self.insert("notes", number=self._notes, kind=kind, source=source, first_seq=first, last_seq=last, text=text)

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with _errors():
            return self._db.execute(statement, [_storable(one) for one in values]).fetchall()

    def count_event(self) -> None:
        self._events += 1
        if not self._events % COMMIT_EVERY:
            self.run("COMMIT")
            self.run("BEGIN")


class Source:
    """A session of a daemon, or a file, which is written to the database. Its texts are empty.

    `stated`: the session as the daemon describes it.
    """

    def __init__(self, database: Database, name: str, stated: Mapping[str, Any] | None) -> None:
        self._db = database
        self._name = name
        self._stated = stated or {}
        self._facts = _Facts()
        self._turns: dict[str, _TurnsOf] = {}
        """Session -> its turns."""
        self._left_out: Counter[str] = Counter()
        """Session that another source has -> its events here."""
        self._repeated = 0
        """Events with the id of another event."""

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        if event.replay:
            return ""
        if self._db.owners.setdefault(event.session, self._name) != self._name:
            self._left_out[event.session] += 1
            return ""
        self._facts.apply(event.stream, [(event.seq or 0, Produced.of(event))])
        turns = self._turns.setdefault(event.session, _TurnsOf())
        if isinstance(event, SessionEvent) and event.alias not in (None, event.session) and event.alias in self._turns:
            self._rename(event.alias, event.session)
        turns.add(event)
        place = {
            "id": event.id,
            "session": event.session,
            "turn": turns.number_of(event),
            "seq": event.seq,
            "stream": event.stream,
            "subagent": event.agent,
        }
        match event:
            case Message() | Reasoning():
                self._add_text(event, place)
            case ToolCall():
                self._add_call(event, place)
            case ToolUpdate():
                self._update_call(event)
            case ToolResult() if not event.async_:
                self._end_call(event, place)
            case PermissionRequest():
                self._ask(event, place)
            case PermissionResponse():
                self._answer(event)
            case _:
                pass
        self._db.count_event()
        return ""

    def add_gap(self, gap: MissingRange) -> str:
        self._db.note("gap", self._name, gap.sentence, gap)
        return ""

    def end(self, *remarks: str) -> Iterator[str]:
        """Write what is known only now. Yields sentences about what was left out."""
        for remark in remarks:
            self._db.note("remark", self._name, remark)
        for session, row in self._facts.sessions.items():
            self._add_session(session, row)
        for session, events in self._left_out.items():
            sentence = (
                f"{counted(events, 'event')} of session {session} left out, which {self._db.owners[session]} has: to "
                "join them, `tooltap ingest` both, and export the session"
            )
            self._db.note("left-out", self._name, sentence)
            yield sentence
        if self._repeated:
            sentence = f"{counted(self._repeated, 'event')} of {self._name} left out: others have the same ids"
            self._db.note("left-out", self._name, sentence)
            yield sentence

    # -- rows of events -------------------------------------------------------------------------------------------

    def _add_text(self, event: Message | Reasoning, place: dict[str, Any]) -> None:
        text, is_cut = bounded_text(event.text, self._db.max_text)
        whole = (event.outputs or {}).get("/text")
        self._insert(
            "messages",
            **place,
            kind="message" if isinstance(event, Message) else "reasoning",
            role=event.role if isinstance(event, Message) else "assistant",
            said_at=time_of(event.ts),
            text=text,
            text_bytes=len(event.text.encode()) if whole is None else whole.bytes,
            text_cut=is_cut or whole is not None,
            attachments=len(event.attachments or ()) if isinstance(event, Message) else 0,
        )

    def _add_call(self, event: ToolCall, place: dict[str, Any]) -> None:
        raw = event.input.get("_happy")
        self._insert(
            "calls",
            **place,
            call_id=event.call_id,
            parent_call=event.parent,
            tool=event.name,
            raw_tool=_other_name(raw, event.name),
            family=family_of(event.name),
            title=event.title,
            preview=event.preview,
            status=event.status,
            started_at=time_of(event.ts),
            **self._payload(event, "input"),
        )

    def _update_call(self, event: ToolUpdate) -> None:
        changes: dict[str, Any] = {"title": event.title, "preview": event.preview, "status": event.status}
        changes = {name: value for name, value in changes.items() if value is not None}
        if event.input is not None:
            changes |= self._payload(event, "input")
        if changes and (call := self._call_of(event, event.call_id)) is not None:
            self._change("calls", call, changes)

    def _end_call(self, event: ToolResult, place: dict[str, Any]) -> None:
        call = self._call_of(event, event.call_id)
        if call is None:  # it is among the events that are missing
            family = family_of(event.name)
            named = {"call_id": event.call_id, "parent_call": event.parent, "tool": event.name, "family": family}
            if (call := self._insert("calls", **place, **named)) is None:
                return
        error = event.output.get("errorMessage")
        changes = {
            "status": event.status,
            "error": bounded_text(error, self._db.max_text)[0] if isinstance(error, str) else None,
            "ended_at": time_of(event.ts),
            "wait_ms": event.wait_ms,
            **self._payload(event, "output"),
        }
        self._change("calls", call, changes)
        self._db.run(
            "UPDATE calls SET duration_ms = coalesce(?, max(0, CAST(round((julianday(ended_at) - julianday(started_at))"
            " * 86400000) AS INTEGER))) WHERE rowid = ?",
            event.duration_ms,
            call,
        )

    def _ask(self, event: PermissionRequest, place: dict[str, Any]) -> None:
        self._insert(
            "permissions",
            **place,
            permission_id=event.permission_id,
            call_id=event.call_id,
            type=event.type,
            tool=event.name,
            title=event.title,
            asked_at=time_of(event.ts),
        )

    def _answer(self, event: PermissionResponse) -> None:
        asked = self._db.run(
            "SELECT rowid, call_id FROM permissions WHERE session = ? AND stream = ? AND permission_id = ?"
            " ORDER BY seq DESC LIMIT 1",
            event.session,
            event.stream,
            event.permission_id,
        )
        call_id = event.call_id
        for permission, of_call in asked:
            call_id = call_id or of_call
            answer = {"outcome": event.outcome, "answered_by": event.by, "answered_at": time_of(event.ts)}
            self._change("permissions", permission, answer)
        if call_id is not None and (call := self._call_of(event, call_id)) is not None:
            self._change("calls", call, {"permission": event.outcome})

    def _call_of(self, event: AnyEvent, call_id: str) -> int | None:
        """Return the row of a call: of several, the latest without a result, or else the latest."""
        found = self._db.run(
            "SELECT rowid FROM calls WHERE session = ? AND stream = ? AND call_id = ?"
            " ORDER BY ended_at IS NOT NULL, seq DESC LIMIT 1",
            event.session,
            event.stream,
            call_id,
        )
        return found[0][0] if found else None

    def _insert(self, table: str, **values: Any) -> int | None:
        row = self._db.insert(table, **values)
        if row is None:
            self._repeated += 1
        return row

    def _change(self, table: str, row: int, values: Mapping[str, Any]) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self._db.run(f"UPDATE {table} SET {names} WHERE rowid = ?", *values.values(), row)

    def _payload(self, event: ToolCall | ToolUpdate | ToolResult, field: str) -> dict[str, Any]:
        text, is_cut = bounded_json(payload_of(event, field, {}), self._db.max_text)
        was_cut = any(pointer.startswith(f"/{field}") for pointer in event.outputs or ())
        return {field: text, f"{field}_cut": is_cut or was_cut}

    def _rename(self, alias: str, session: str) -> None:
        """Give the rows of a session its real id, which arrived late."""
        shift = self._turns[session].follow(self._turns.pop(alias))
        for table in ("calls", "messages", "permissions"):
            if shift:
                self._db.run(f"UPDATE {table} SET turn = turn + ? WHERE session = ?", shift, session)
            self._db.run(f"UPDATE OR REPLACE {table} SET session = ? WHERE session = ?", session, alias)

    # -- rows of sessions -----------------------------------------------------------------------------------------

    def _add_session(self, session: str, row: SessionRow) -> None:
        streams: dict[str, StreamState] = dict.fromkeys(self._facts.streams.get(session, ()), "ended")
        described = row.describe(session, streams, pending="request" if self._facts.is_asking(session) else "")
        if self._stated.get("session") == session:
            described |= {key: self._stated[key] for key in _ORIGINS if key in self._stated}
        cost = described.get("costUsd")
        self._db.insert(
            "sessions",
            session=session,
            agent=described["provider"],
            agent_version=described.get("agentVersion"),
            models=msgspec.json.encode(row.models).decode(),
            parent=described.get("parent"),
            forked_from=described.get("forkedFrom"),
            empty=row.is_empty,
            started_at=time_of(row.first_ts),
            ended_at=time_of(row.last_ts),
            duration_ms=described.get("durationMs"),
            lines_added=row.changes.added,
            lines_removed=row.changes.removed,
            cost_usd=described.get("knownCostUsd") if cost is None else cost,
            cost_estimated=described.get("costEstimated", False),
            cost_complete=cost is not None,
            cost_model=described.get("costModel"),
            context_used=described.get("contextUsed"),
            context_size=described.get("contextSize"),
            **{
                name: described.get(name)
                for name in ("model", "title", "project", "cwd", "branch", "resumes", "status", "turns", "calls")
            },
            **{name: described.get(name) for name in ("events", "errors", "files")},
            **{name: described.get(key) for name, key in _TOKENS.items()},
        )
        self._turns[session].write(self._db, session)
        for number, part in enumerate(priced(row.used), 1):
            key, amount, price = part
            started = None if key.slot is None else key.slot * key.width * QUARTER_MS
            self._db.insert(
                "usage",
                session=session,
                part=number,
                subagent=key.agent,
                model=key.model,
                day=(time_of(key.middle) or "")[:10] or None,
                started_at=time_of(started),
                minutes=None if key.slot is None else key.width * QUARTER_MS // 60_000,
                **{name: getattr(amount, name) for name in _TOKENS},
                cost_usd=None if price is None else price.usd,
                cost_estimated=price is not None and price.estimated,
                cost_model=None if price is None else price.matched,
            )
        for path, parts in row.changes.parts.of_path.items():
            for number, change in enumerate(parts, 1):
                self._db.insert(
                    "files",
                    session=session,
                    path=path,
                    part=number,
                    changed_at=time_of(change.ts),
                    seq=change.seq,
                    changes=change.changes,
                    lines_added=change.added,
                    lines_removed=change.removed,
                )


_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheWriteTokens",
    "reasoning_tokens": "reasoningTokens",
    "estimated_output_tokens": "estimatedOutputTokens",
}
"""Column -> key in a reply."""


class _Facts(Projection):
    """The rows of the sessions of one source, as a journal derives them."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionRow] = {}
        self.streams: dict[str, set[str]] = {}
        """Session -> the streams that have events of it."""
        self._rows: dict[str, dict[str, CallRow]] = {}

    def is_asking(self, session: str) -> bool:
        """Return whether a request for the user has no answer."""
        rows = (row for of_stream in self._rows.values() for row in of_stream.values())
        return any(row.kind == PERMISSION and row.session == session for row in rows)

    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        return self._rows.setdefault(stream, {})

    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        if row is None:
            del self._rows[stream][key]
        else:
            self._rows.setdefault(stream, {})[key] = row

    def _known(self, name: str) -> SessionRow | None:
        return self.sessions.get(name)

    def _change(self, name: str, row: SessionRow) -> SessionRow:
        return row

    def _note_fork(self, fork: str, parent: str) -> None:
        """Do nothing: forks are found by the journal."""

    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        self.streams.setdefault(name, set()).add(stream)
        return self.sessions.setdefault(name, new)

    def _rename(self, alias: str, stream: str) -> SessionRow | None:
        self.streams.pop(alias, None)
        return self.sessions.pop(alias, None)


class _TurnsOf:
    """The turns of one session."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._ends: dict[int, Turn] = {}
        """Number -> the event of its latest end."""
        self._numbers: dict[tuple[str, str], int] = {}
        """Stream and id of a turn -> its number."""
        self._ledger = Ledger()
        self._spent: dict[int, list[Spent]] = {}
        """Number -> what the turn used; 0 for what was used before the first. Several if the session was renamed."""
        self._has_called = False

    def add(self, event: AnyEvent) -> None:
        begun = self._turns.add(event)
        if begun is not None and event.turn is not None:
            self._numbers[event.stream, event.turn] = begun.number
        if isinstance(event, Turn) and event.agent is None and begun is None and self._turns.all:
            self._ends[self._turns.all[-1].number] = event
        self._add_usage(event, is_first=begun is not None and begun.number == 1)

    def _add_usage(self, event: AnyEvent, *, is_first: bool) -> None:
        """Add what the event says was used to the turn that is going on, as the page does: see its tab *Usage*."""
        if is_first and not self._has_called and all(one.is_ahead for one in self._spent.get(0, ())):
            self._spent = {1: self._spent.pop(0, [])}
        match event:
            case ToolCall():
                self._has_called = True
            case SessionEvent():
                self._ledger.note_session(event.stream, event.agent, event.state, event.model)
            case Usage():
                at = event.ts if event.beside is not None else None
                parts = self._spent.setdefault(self._number_at(at), [])
                if not parts or parts[-1].ledger is not self._ledger:
                    parts.append(Spent(self._ledger))
                parts[-1].add(event, event.agent, event.ts, event.stream, event.id)
            case _:
                pass

    def _number_at(self, ts: int | None) -> int:
        """Return the number of the latest turn that began before a time; of the latest one without a time, and if none
        did: an agent's file may be read after its tap has gone on."""
        began = (turn for turn in reversed(self._turns.all) if ts and turn.began is not None and turn.began <= ts)
        found = next(began, self._turns.all[-1] if self._turns.all else None)
        return 0 if found is None else found.number

    def number_of(self, event: AnyEvent) -> int | None:
        return None if event.turn is None else self._numbers.get((event.stream, event.turn))

    def follow(self, earlier: _TurnsOf) -> int:
        """Put the turns of the same session under its earlier name before these. Return by how much these are
        renumbered."""
        shift = len(earlier._turns.all)
        spent = {number + shift: parts for number, parts in self._spent.items()}
        self._spent = earlier._spent | {number: earlier._spent.get(number, []) + one for number, one in spent.items()}
        if not self._turns.all:
            self._turns, self._ends, self._numbers = earlier._turns, earlier._ends, earlier._numbers
            self._ledger, self._has_called = earlier._ledger, earlier._has_called
            return 0
        for turn in self._turns.all:
            turn.number += shift
        self._turns.all[:0] = earlier._turns.all
        self._ends = earlier._ends | {number + shift: end for number, end in self._ends.items()}
        self._numbers = earlier._numbers | {key: number + shift for key, number in self._numbers.items()}
        return shift

    def write(self, database: Database, session: str) -> None:
        for turn in self._turns.all:
            end = self._ends.get(turn.number)
            is_over = end is not None and turn.state != "started"
            spent = self._spent.get(turn.number)
            database.insert(
                "turns",
                session=session,
                number=turn.number,
                prompt=turn.words or None,
                state=turn.state,
                ended_by=end.ended_by if end is not None and is_over else None,
                reason=end.reason if end is not None and is_over else None,
                started_at=time_of(turn.began),
                ended_at=time_of(turn.ended),
                duration_ms=turn.duration,
                seq=turn.first,
                **(_figures_of(spent) if spent else {}),
            )


def _figures_of(spent: list[Spent]) -> dict[str, Any]:
    """Return the tokens and the cost of a turn."""
    whole = Total()
    for one in spent:
        whole.amount.add(one.amount)
    cost = cost_of(spent)
    parts = [part for one in spent for part in one.used.parts]
    known = Total.of(SessionUsage(parts=parts)).dollars if cost is None else cost.usd
    return {
        **{name: getattr(whole.amount, name) for name in _TOKENS},
        "cost_usd": known,
        "cost_estimated": known is not None if cost is None else cost.estimated,
        "cost_complete": cost is not None,
    }


# -- values ----------------------------------------------------------------------------------------------------------


def time_of(milliseconds: int | None) -> str | None:
    """Return a time in UTC, to the millisecond: `2026-11-29T10:46:58.125Z`; None for one that no calendar has."""
    seconds = iso_time(milliseconds)
    return None if seconds is None or milliseconds is None else f"{seconds[:-1]}.{milliseconds % 1000:03d}Z"


def bounded_text(text: str, most: int) -> tuple[str, bool]:
    """Return a text of at most `most` bytes, and whether it is cut."""
    if len(text) * 4 <= most or len(data := text.encode()) <= most:
        return text, False
    return data[:most].decode(errors="ignore"), True


def bounded_json(value: Mapping[str, Any], most: int) -> tuple[str, bool]:
    """Return a valid JSON text of at most `most` bytes, and whether it is cut: an object whose longest strings are cut,
    or else a string with the beginning of the whole."""
    data = msgspec.json.encode(value)
    if len(data) <= most:
        return data.decode(), False
    for length in (most // 2, most // 8, most // 64):
        short = {key: bounded_text(one, length)[0] if isinstance(one, str) else one for key, one in value.items()}
        if len(encoded := msgspec.json.encode(short)) <= most:
            return encoded.decode(), True
    beginning = data[: max(0, most // 2 - 2)].decode(errors="ignore")
    return msgspec.json.encode(beginning).decode(), True


def _other_name(happy: object, name: str) -> str | None:
    raw = happy.get("rawToolName") if isinstance(happy, dict) else None
    return raw if isinstance(raw, str) and raw != name else None


def _storable(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-MOST, min(value, MOST))  # agents state it
    return value


@contextmanager
def _errors() -> Iterator[None]:
    """Turn errors of the disk, which SQLite reports, into `OSError`."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(errno.EIO, str(error)) from None


def _created(table: Table) -> str:
    lines = [f"{column.name} {_TYPES[column.kind]}" for column in table.columns]
    lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    for columns, other, to in table.references:
        lines.append(f"FOREIGN KEY ({', '.join(columns)}) REFERENCES {other} ({', '.join(to)})")
    return f"CREATE TABLE {table.name} ({', '.join(lines)});"


def _indexes(table: Table) -> str:
    return "".join(
        f"CREATE INDEX {table.name}_by_{'_'.join(columns)} ON {table.name} ({', '.join(columns)});"
        for columns in table.indexes
    )
