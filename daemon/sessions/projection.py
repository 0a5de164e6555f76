"""The rows that a journal derives from events as they are committed: open calls, pending permissions, and sessions.

The rules are here; each journal stores the rows in its own way (`Projection` has a method for each access). Events of
replayed history are not projected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tooltap.daemon.sessions.row import DESCRIPTION, SessionRow
from tooltap.normalizers.catalog.registry import session_dialects
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.tools.registry import ASKING

CALL = "call"
PERMISSION = "permission"
HOOKS = "hooks"
"""The dialect of hooks of agents, which have nothing but questions."""
FROM_HOOK = "fromHook"
"""Key of a permission that a hook has asked for."""


class CallRow(msgspec.Struct, array_like=True):
    """A call or permission without a result or answer yet."""

    kind: str
    session: str
    seq: int
    data: dict[str, Any]


class Projection(ABC):
    """Applies events to the derived rows."""

    def apply(
        self,
        stream: str,
        entries: Iterable[tuple[int, Produced]],
        forks: Mapping[str, str] = MappingProxyType({}),
        copies: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Apply events of one stream, each with its `seq`. `forks`, `copies`: see `repetitions.Compared`."""
        name: str | None = None
        # A repeated request says nothing of a session that has reported requests of its own.
        found = {fork: forks[fork] for fork in forks if (known := self._known(fork)) is None or not known.used.parts}
        for seq, entry in entries:
            if entry.replay:
                continue
            if entry.session != name:
                name = entry.session
                new = SessionRow(provider=entry.provider, host=entry.host, first_seq=seq, last_seq=seq)
                row = self._session(name, stream, new)
            row.note(seq, entry)
            if (rule := _RULES.get(entry.kind)) is not None:
                rule(self, stream, row, seq, entry)
        for fork, parent in {**found, **copies}.items():
            known = self._known(fork)
            if known is None:
                self._note_fork(fork, parent)
            elif known.is_fork_of(parent):
                self._change(fork, known).forked_from = parent

    def end_stream(self, stream: str) -> None:
        """Drop the stream's open calls and permissions: it has ended."""
        for key in list(self._calls(stream)):
            self._put_call(stream, key, None)

    # -- where the rows are stored ------------------------------------------------------------------------------

    @abstractmethod
    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        """Return the stream's open calls and permissions, by `<kind>:<id>`."""

    @abstractmethod
    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        """Store a row, or delete it."""

    @abstractmethod
    def _known(self, name: str) -> SessionRow | None:
        """Return the session's row; None if there is none."""

    @abstractmethod
    def _change(self, name: str, row: SessionRow) -> SessionRow:
        """Return a known session's row, to be changed, though the stream has no events of the session."""

    @abstractmethod
    def _note_fork(self, fork: str, parent: str) -> None:
        """Note that a session is a fork, whose row is not known here."""

    @abstractmethod
    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        """Return the session's row, to be changed; `new` if there is none. Note that the stream has events of the
        session."""

    @abstractmethod
    def _rename(self, alias: str, stream: str) -> SessionRow | None:
        """Note that the stream has no events of session `alias` any more. Delete and return the alias's row; None if
        other streams have events of it, or if there is none."""

    # -- rules --------------------------------------------------------------------------------------------------

    def _open(self, stream: str, kind: str, row_id: str, seq: int, entry: Produced, data: dict[str, Any]) -> None:
        scope = {"ts": entry.ts, "turn": entry.turn, "agent": entry.agent, "parent": entry.parent}
        row = CallRow(kind, entry.session, seq, _known({**data, **scope}))
        self._put_call(stream, f"{kind}:{row_id}", row)

    def _close(self, stream: str, kind: str, row_id: str) -> None:
        key = f"{kind}:{row_id}"
        if key in self._calls(stream):
            self._put_call(stream, key, None)

    def _open_call(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        row.calls += 1
        call = entry.fields
        data = {
            "callId": call.call_id,
            "name": call.name,
            "rawToolName": entry.raw_tool,
            "status": call.status,
            "title": call.title,
            "preview": call.preview,
        }
        self._open(stream, CALL, call.call_id, seq, entry, data)
        # What an agent prints has a request for each question, or nobody can answer it, and the call fails at once.
        if call.name in ASKING and entry.head.dialect in session_dialects():
            questions = (call.input or {}).get("questions")
            asked = {
                "permissionId": call.call_id,
                "type": ASKING[call.name],
                "callId": call.call_id,
                "name": call.name,
                "title": call.title or call.preview,
                "questions": questions if isinstance(questions, list) else None,
                "fromCall": True,
            }
            self._open(stream, PERMISSION, _by_call(call.call_id), seq, entry, asked)

    def _update_call(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        update = entry.fields
        key = f"{CALL}:{update.call_id}"
        call = self._calls(stream).get(key)
        if call is None:
            return
        changes = {"name": update.name, "status": update.status, "title": update.title, "preview": update.preview}
        data = {**call.data, **_known(changes)}
        if data != call.data:
            self._put_call(stream, key, CallRow(call.kind, call.session, call.seq, data))

    def _close_call(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        if not entry.fields.async_:
            self._close(stream, CALL, entry.fields.call_id)
            self._close(stream, PERMISSION, _by_call(entry.fields.call_id))

    def _ask(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        request = entry.fields
        data = {
            "permissionId": request.permission_id,
            "type": request.type,
            "callId": request.call_id,
            "name": request.name,
            "title": request.title,
            "options": request.options,
            "questions": request.questions,
            FROM_HOOK: True if entry.head.dialect == HOOKS else None,
        }
        if request.call_id is not None:
            self._close(stream, PERMISSION, _by_call(request.call_id))
        self._open(stream, PERMISSION, request.permission_id, seq, entry, data)

    def _answer(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        self._close(stream, PERMISSION, entry.fields.permission_id)

    def _update_session(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        changed = entry.fields
        if changed.model is not None:
            row.use_model(changed.model)
        if entry.agent is None:
            row.home = row.home or changed.cwd
            if changed.cwd == row.home:
                row.root = row.root or changed.root
            if changed.state != "updated":
                row.ended = changed.state == "ended"
            for field in DESCRIPTION:
                value = getattr(changed, field)
                if value is not None:
                    setattr(row, field, value)
            row.forked_from = changed.forked_from or row.forked_from
            row.parent = changed.parent_session or row.parent
            row.resumes = changed.resumes or row.resumes
        alias = changed.alias
        if alias is not None and alias != entry.session:
            # Until its id was known, this stream's session went by another name.
            for key, call in list(self._calls(stream).items()):
                if call.session == alias:
                    self._put_call(stream, key, CallRow(call.kind, entry.session, call.seq, call.data))
            earlier = self._rename(alias, stream)
            if earlier is not None:
                row.absorb(earlier)
                row.note_alias(alias, seq)


_RULES: dict[str, Callable[[Projection, str, SessionRow, int, Produced], None]] = {
    "tool-call": Projection._open_call,
    "tool-update": Projection._update_call,
    "tool-result": Projection._close_call,
    "permission-request": Projection._ask,
    "permission-response": Projection._answer,
    "session": Projection._update_session,
}


def _by_call(call_id: str) -> str:
    """Return the row id of a question that only its call states."""
    return f"call {call_id}"


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
