"""Reads the tables `session_v2` and `session_message`, in which OpenCode 2 stores sessions.

A row of `session_message` is a message, and changes until it is complete; a revert deletes the last ones. `seq` numbers
the messages of a session, with gaps. Each state of a row is a line:
`{id, aggregate_id, seq, type, time_created, data, final?}`. Lines of the type `session` have what is stated of a
session, `session-usage` its totals, and `rewound` the last message that a revert has left. Learned from OpenCode's
schema (2.0.12) and a database of that version.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession

PREFIX = "session_v2/"
"""Begins the names of sessions in these tables, so that those of the older table keep theirs."""
TABLES = frozenset({"session_v2", "session_message"})

_COLUMNS = "SELECT name FROM pragma_table_info('session_v2')"
_SESSION = "SELECT * FROM session_v2 WHERE id = ?"
_LISTED = """
SELECT id, {}, time_created, time_updated,
    (SELECT count(*) FROM session_message WHERE session_id = session_v2.id),
    (SELECT min(time_created) FROM session_message WHERE session_id = session_v2.id),
    (SELECT max(changed) FROM (
        SELECT max(time_created, time_updated) AS changed FROM session_message WHERE session_id = session_v2.id
        ORDER BY seq DESC LIMIT 16
    ))
FROM session_v2
"""
_ENDS = """
SELECT max(seq), max(CASE WHEN type IN ('assistant', 'idle') THEN seq END) FROM session_message WHERE session_id = ?
"""
_MESSAGES = """
SELECT id, session_id, seq, type, time_created, data FROM session_message WHERE session_id = ? AND seq >= ?
ORDER BY seq
"""
_TOTALS = ("cost", "tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read", "tokens_cache_write")
_FACTS = (
    "id",
    "parent_id",
    "fork_session_id",
    "slug",
    "directory",
    "title",
    "version",
    "agent",
    "model",
    "time_created",
)
_FACTS_NUMBER, _TOTALS_NUMBER, _REWOUND_NUMBER = -3, -2, -1


class Listed(NamedTuple):
    """A session as it is listed."""

    session: str
    owner: str | None
    """The session of which it is a subagent's."""
    rows: int
    changed: int
    """Time of its last change, in ms since the epoch."""


def listed(query: Query) -> dict[str, Listed]:
    """Return all sessions that have messages."""
    columns = {name for (name,) in query(_COLUMNS)}
    given = "parent_id" if "fork_session_id" not in columns else "CASE WHEN fork_session_id IS NULL THEN parent_id END"
    found = {}
    for session, parent, created, updated, rows, first, last in query(_LISTED.format(given)):
        if rows:
            # The parent of a session with older messages is the one that it was forked from (2.0.0-beta).
            owner = parent if first >= created else None
            found[session] = Listed(session, owner, rows, max(updated, last))
    return {one.session: one if one.owner in found else one._replace(owner=None) for one in found.values()}


def families(found: Mapping[str, Listed]) -> dict[str, list[Listed]]:
    """Return the sessions that are no subagents', each with those of its subagents."""
    roots: dict[str, list[Listed]] = {}
    for one in found.values():
        root, seen = one, {one.session}
        while root.owner is not None and root.owner not in seen:
            root = found[root.owner]
            seen.add(root.session)
        roots.setdefault(root.session, []).append(one)
    return roots


def sessions(query: Query) -> Iterator[StoredSession]:
    for root, family in families(listed(query)).items():
        rows, changed = sum(one.rows for one in family), max(one.changed for one in family)
        yield StoredSession(f"{PREFIX}{root}", rows, changed, is_appended=False)


def rows(query: Query, session: str, taken: Mapping[str, int]) -> Generator[Row, None, None]:
    """Yield the rows of a session and its subagents' that are new or have changed, by the times of the messages."""
    family = families(listed(query)).get(session.removeprefix(PREFIX))
    if family is None:
        raise SessionGoneError
    changed = max(one.changed for one in family)
    columns = [name for (name,) in query(_COLUMNS)]
    stored = {one.session: _stored(query, one.session, columns) for one in family}
    for one in family:
        yield from _state_of_session(one.session, _FACTS_NUMBER, "session", _facts(stored[one.session]), changed, taken)
    messages = [
        _messages(query, one.session, taken, changed, [other.session for other in family if other.owner == one.session])
        for one in family
    ]
    for _, row in heapq.merge(*messages, key=lambda message: message[0]):
        yield row
    for one in family:
        totals = {key: value for key, value in stored[one.session].items() if key in _TOTALS}
        yield from _state_of_session(one.session, _TOTALS_NUMBER, "session-usage", totals, changed, taken)


def _stored(query: Query, session: str, columns: list[str]) -> dict[str, Any]:
    return dict(zip(columns, next(iter(query(_SESSION, (session,)))), strict=True))


def _facts(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is stated of a session besides its totals and times."""
    facts = {key: stored[key] for key in _FACTS if stored.get(key) is not None}
    if isinstance(model := facts.get("model"), str):
        facts["model"] = _decoded(model)
    return facts


def _state_of_session(
    session: str, number: int, kind: str, data: dict[str, Any], changed: int, taken: Mapping[str, int]
) -> Iterator[Row]:
    """Yield what is stated of a session, unless that is known."""
    state = crc32(orjson.dumps(data))
    if taken.get(f"{session}/{number}") != state:
        head = {"id": session, "aggregate_id": session, "seq": number, "type": kind}
        yield Row(session, number, _line(head, json.dumps(data)), changed, state)


def _messages(
    query: Query, session: str, taken: Mapping[str, int], changed: int, children: list[str]
) -> Iterator[tuple[int, Row]]:
    """Yield time and row of the messages that are new or have changed. One that names the session of a subagent
    (`children`) is yielded twice: its turn has not ended while the subagent works."""
    [(last, latest)] = query(_ENDS, (session,))
    begin, prefix = taken.get(session, 0), f"{session}/"
    known = {int(key.removeprefix(prefix)): state for key, state in taken.items() if key.startswith(prefix)}
    if begin > last + 1 and known.get(_REWOUND_NUMBER) != last:
        head = {"id": session, "aggregate_id": session, "seq": _REWOUND_NUMBER, "type": "rewound"}
        line = _line(head, json.dumps({"sessionID": session, "seq": last}))
        yield 0, Row(session, _REWOUND_NUMBER, line, changed, last)
    first = min([begin, *(number for number in known if number >= 0)])
    for message, owner, seq, kind, created, data in query(_MESSAGES, (session, first)):
        if seq < begin and seq not in known:
            continue
        is_final = _is_final(kind, data, seq < (latest or 0))
        head = {"id": message, "aggregate_id": owner, "seq": seq, "type": kind, "time_created": created}
        if not is_final or any(child in data for child in children):
            state = crc32(data.encode(errors="replace"))
            if known.get(seq) != state:
                yield created, Row(owner, seq, _line(head | {"final": False}, data), changed, state)
        if is_final:
            yield _end(data, created) if children else created, Row(owner, seq, _line(head, data), changed)


def _end(data: str, created: int) -> int:
    """Return when a message was complete, in ms since the epoch."""
    times = _decoded(data).get("time")
    completed = times.get("completed") if isinstance(times, dict) else None
    return completed if isinstance(completed, int) else created


def _is_final(kind: str, data: str, is_superseded: bool) -> bool:
    """Return whether a message does not change any more. `is_superseded`: the agent has written a later one."""
    if kind not in ("assistant", "compaction", "shell") or is_superseded:
        return True
    value = _decoded(data)
    times = value.get("time")
    if isinstance(times, dict) and isinstance(times.get("completed"), int):
        return True
    status = value.get("status")
    return kind != "assistant" and (status != "running" if status else kind == "compaction")


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _line(head: dict[str, Any], data: str) -> bytes:
    return f'{json.dumps(head)[:-1]}, "data": {data}}}'.replace("\n", " ").encode(errors="replace")
