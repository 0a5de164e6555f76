"""Calls that read or changed files, each found once its result says that it succeeded."""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.normalizers.changes.steps import FILE_TOOLS, Step, steps

MAX_OPEN = 1_000
"""Maximum number of open calls whose input is remembered."""


class FileCall(NamedTuple):
    seq: int
    """`seq` of the call."""
    steps: list[Step]


class FileCalls:
    """Pairs the calls of a session with their results."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        self._done: set[tuple[str, str]] = set()

    def note(self, seq: int, event: dict[str, Any]) -> FileCall | None:
        """Process a call, an update or a result, decoded from JSON. Returns the call that it completes."""
        if event.get("replay") or event.get("partial") or event["name"] not in FILE_TOOLS:
            return None
        key = (event["stream"], event["callId"])
        if event["kind"] == "tool-result":
            return self._note_result(key, event)
        if (given := event.get("input")) is not None:
            first, _ = self._open.pop(key, (seq, {}))
            self._open[key] = (first, _with_cut(given, event, "/input/"))
            if len(self._open) > MAX_OPEN:
                del self._open[next(iter(self._open))]
        return None

    def _note_result(self, key: tuple[str, str], event: dict[str, Any]) -> FileCall | None:
        call = self._open.get(key)
        if event["status"] != "completed" or event.get("async") or call is None or key in self._done:
            return None
        self._done.add(key)
        seq, given = self._open.pop(key)
        return FileCall(seq, steps(event["name"], given, _with_cut(event["output"], event, "/output/")))


def _with_cut(payload: dict[str, Any], event: dict[str, Any], place: str) -> dict[str, Any]:
    """Null the truncated fields of a payload: the event has only their beginning, an output body the whole. `place`:
    the payload's JSON pointer prefix."""
    cut = [pointer.removeprefix(place) for pointer in event.get("outputs") or {} if pointer.startswith(place)]
    names = {pointer.partition("/")[0] for pointer in cut} - {"_raw"}
    return {**payload, **dict.fromkeys(names)} if names else payload
