"""The `vibe-session` dialect: sessions as Mistral Vibe stores them.

Learned from Mistral Vibe 3.0. A session is a snapshot of its state, and the changes that have been made since. Each
version of the two together is a line. The entries of the history are those of `vibe-json`; only those that no version
before had, or that had not ended, are read. The state says what the stream does not: how a turn ended, and its tokens.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.state import History
from tooltap.normalizers.dialects.vibe.parser import VibeJson, VibeState
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Usage

ENTRIES = 4_096
"""Latest entries of a history that are remembered."""
_OUTCOMES = {"completed": "completed", "failed": "failed", "errored": "failed"}
"""Status of a turn that has ended -> outcome; every other was stopped."""


class VibeSessionState(VibeState, kw_only=True):
    described: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Fields of the session -> value that was emitted last."""
    tokens: int = 0
    """All tokens that usage was emitted for."""
    history: History = msgspec.field(default_factory=History)


class VibeSession(VibeJson):
    dialect = "vibe-session"
    protocol = default_provider = "vibe"
    DOCUMENTS = True
    state_type = VibeSessionState
    state: VibeSessionState

    def read(self, value: Line) -> Skip:
        state, entries = _apply(record(value.get("snapshot")), value.get("history"), records(value.get("changes")))
        session = string(record(state.get("session")).get("id"))
        if session is None:
            return self.unparsed("unknown-type", value)
        self.set_session(session)
        self._describe(record(value.get("meta")))
        crcs = [zlib.crc32(str(entry.get("id")).encode()) for entry in entries]
        start, _ = self.state.history.unread(crcs, ENTRIES)
        for entry in entries[:start]:
            if self._is_open(entry):
                super().read(entry)
        for entry in entries[start:]:
            if not self._is_done(entry):
                super().read(entry)
        self._end(record(state.get("latestTurn")), record(state.get("session")))
        return None if self.items else "unchanged"

    def _is_open(self, entry: Line) -> bool:
        """Whether an entry that was read before may have changed."""
        entry_id, permission_id = str(entry.get("id")), str(entry.get("callbackId"))
        is_growing = self.state.messages.get(entry_id, -1) >= 0 or self.permissions.is_pending(permission_id)
        return is_growing or self.calls.get(entry_id) is not None

    def _is_done(self, entry: Line) -> bool:
        entry_id = str(entry.get("id"))
        return self.state.messages.get(entry_id) == -1 or self.calls.is_over(entry_id)

    def _describe(self, meta: Line) -> None:
        environment, config = record(meta.get("environment")), record(meta.get("config"))
        known = {
            "cwd": string(environment.get("working_directory")),
            "branch": string(meta.get("git_branch")),
            "title": string(meta.get("title")),
            "model": string(config.get("model_name")),
        }
        changes = {key: text for key, text in known.items() if text and self.state.described.get(key) != text}
        self.state.described.update(changes)
        self.state.cwd = changes.get("cwd", self.state.cwd)
        self.update_session(changes)

    def _end(self, turn: Line, session: Line) -> None:
        """End the turn that the state says has ended."""
        status, ended = string(turn.get("status")), whole(turn.get("completedAt"))
        if self.turn is None or self.turn != turn.get("id") or status is None or ended is None:
            return
        self.ts = ended
        tokens = _tokens(record(session.get("tokenUsage")))
        total = (tokens.get("input_tokens") or 0) + (tokens.get("output_tokens") or 0)
        context = whole(record(session.get("contextUsage")).get("totalTokens"))
        usage = (Usage, {"scope": "session", "context_used": context, **tokens})
        self.end_turn(
            _OUTCOMES.get(status, "cancelled"),
            reason=string(turn.get("stopReason")),
            before=(usage,) if total > self.state.tokens else (),
        )
        self.state.tokens = max(total, self.state.tokens)


def _apply(snapshot: Line, history: Any, changes: list[Line]) -> tuple[Line, list[Line]]:
    """The state and the entries of the history after these changes."""
    state, entries = snapshot, records(history)
    places = {entry.get("id"): place for place, entry in enumerate(entries) if isinstance(entry.get("id"), str)}
    for change in changes:
        entry, operation = record(change.get("entry")), change.get("op")
        if operation == "set_envelope":
            state = record(change.get("state"))
        elif operation == "set_history_entries":
            entries = records(change.get("entries"))
            places = {entry.get("id"): place for place, entry in enumerate(entries) if isinstance(entry.get("id"), str)}
        elif operation == "append_entry" and isinstance(entry.get("id"), str):
            places[entry["id"]] = len(entries)
            entries.append(entry)
        elif operation == "replace_entry" and isinstance(entry.get("id"), str) and entry["id"] in places:
            entries[places[entry["id"]]] = entry
        elif operation == "remove_entry" and isinstance(change.get("id"), str) and change["id"] in places:
            entries[places.pop(change["id"])] = {}
    return state, [entry for entry in entries if entry]


def _tokens(usage: Line) -> dict[str, int | None]:
    return {
        "input_tokens": whole(usage.get("inputTokens")),
        "output_tokens": whole(usage.get("outputTokens")),
        "cache_read_tokens": whole(usage.get("cachedInputTokens")),
    }
