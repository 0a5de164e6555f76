"""Compares our payloads with those of the ancestor, case by case: `make lab-goldens`.

    python -m tests.kit.goldens FILE

A case is a line with a JSON object: `event` (a V1 trace record), `canonicalToolName` and `normalized` (the ancestor's
payload). The records are parsed in order by the dialect `happier-trace`. Each tool must get the same name, and every
field of the ancestor's payload must be in ours with the same value, except for the differences listed below, each of
which must explain something.

Exit code 0: everything is equal or explained; 1: something is unexplained, or an entry of the list explains nothing; 2:
FILE cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tooltap.cli.common.guard import guard
from tooltap.cli.common.printing import on_stderr, say
from tooltap.normalizers.catalog.registry import parser_class
from tooltap.normalizers.core.items import Context, Produced
from tooltap.protocol.events import PermissionRequest, ToolCall, ToolResult, ToolUpdate

ABSENT = "(absent)"
SHOWN = 160
"""Maximum characters of a value in the report."""


class Case(msgspec.Struct, rename="camel"):
    event: dict[str, Any]
    canonical_tool_name: str
    normalized: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.event.get("kind"))

    @property
    def payload(self) -> dict[str, Any]:
        payload = self.event.get("payload")
        return payload if isinstance(payload, dict) else {}


class Payload(NamedTuple):
    """Our canonical name and payload of a record."""

    name: str
    payload: dict[str, Any]


class Mismatch(NamedTuple):
    line: int
    case: Case
    ours: Payload
    pointer: str
    """A JSON pointer into the payload, or `name` for the canonical name."""
    expected: Any
    found: Any
    """`ABSENT` if our payload has no such field."""

    @property
    def key(self) -> str:
        """The last part of the pointer."""
        return self.pointer.rpartition("/")[2]

    def __str__(self) -> str:
        return (
            f"line {self.line}, {self.case.kind} of {self.ours.name}, {self.pointer}: the ancestor has "
            f"{_shown(self.expected)}, we have {_shown(self.found)}"
        )


# -- the known differences ----------------------------------------------------------------------------------------


class Difference(NamedTuple):
    name: str
    why: str
    explains: Callable[[Mismatch], bool]


def _is_acp_envelope(mismatch: Mismatch) -> bool:
    options = mismatch.case.payload.get("options")
    tool_call = options.get("toolCall") if isinstance(options, dict) else None
    key = mismatch.pointer.removeprefix("/_raw").removeprefix("/").partition("/")[0]
    return mismatch.case.kind == "permission-request" and isinstance(tool_call, dict) and key in tool_call


def _is_named_by_permission(mismatch: Mismatch) -> bool:
    return _is_about_name(mismatch) and mismatch.case.canonical_tool_name == "Unknown"


def _is_named_by_call(mismatch: Mismatch) -> bool:
    return _is_about_name(mismatch) and mismatch.case.kind == "permission-request"


def _is_named_by_title(mismatch: Mismatch) -> bool:
    return _is_about_name(mismatch) and mismatch.case.canonical_tool_name == "other"


def _is_about_name(mismatch: Mismatch) -> bool:
    return mismatch.pointer in ("name", "/_happy/rawToolName", "/_happy/canonicalToolName")


def _is_decoded_list(mismatch: Mismatch) -> bool:
    value = mismatch.expected
    return mismatch.pointer == "/value" and isinstance(value, str) and "todos" in mismatch.ours.payload


def _is_counted_line(mismatch: Mismatch) -> bool:
    if mismatch.pointer == "/file/content":
        return isinstance(mismatch.found, str) and mismatch.found.rstrip() == mismatch.expected
    content = mismatch.ours.payload.get("file", {}).get("content", "")
    return mismatch.pointer == "/file/numLines" and mismatch.found == content.count("\n") + 1


def _is_kind_of_change(mismatch: Mismatch) -> bool:
    is_change = mismatch.pointer.startswith("/changes/") and mismatch.key == "type"
    return is_change and (mismatch.expected, mismatch.found) in (("update", "modify"), ("update", "rename"))


def _is_null(mismatch: Mismatch) -> bool:
    return mismatch.expected is None and mismatch.found is ABSENT


DIFFERENCES = (
    Difference(
        "acp-envelope",
        "the ancestor's input of a permission is the whole ACP `toolCall`; ours is its `rawInput`",
        _is_acp_envelope,
    ),
    Difference(
        "named-by-permission",
        "the ancestor forgets the name that a permission gave to a call (weak spot 14)",
        _is_named_by_permission,
    ),
    Difference(
        "named-by-call",
        "the ancestor names a permission after the request; ours has the name of its call",
        _is_named_by_call,
    ),
    Difference(
        "named-by-title",
        "the ancestor names a call `other` although its ACP title is the tool's name (weak spot 12)",
        _is_named_by_title,
    ),
    Difference(
        "json-decoded",
        "the ancestor does not decode a to-do list that is a JSON string (weak spot 12)",
        _is_decoded_list,
    ),
    Difference(
        "numbered-lines",
        "the ancestor counts blank lines after OpenCode's numbered lines, and strips blank lines at the end",
        _is_counted_line,
    ),
    Difference(
        "kinds-of-change",
        "the ancestor keeps Codex's term; ours is add, modify, delete or rename for every provider",
        _is_kind_of_change,
    ),
    Difference("null", "the ancestor writes null for an absent value; we omit the key", _is_null),
)


# -- the check ----------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    cases: int
    fields: int
    explained: dict[str, list[Mismatch]]
    """Name of a difference -> the mismatches it explains."""
    unexplained: list[Mismatch]

    @property
    def unused(self) -> list[str]:
        """Differences that explain no mismatch."""
        return [name for name, mismatches in self.explained.items() if not mismatches]

    @property
    def is_good(self) -> bool:
        return not self.unexplained and not self.unused


def read_cases(data: bytes) -> list[Case]:
    """Decode the file's cases. Raises `ValueError` with a sentence that names the line."""
    cases = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            cases.append(msgspec.json.decode(line, type=Case))
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number} is not a case: {error}") from None
    if not cases:
        raise ValueError("it contains no cases")
    return cases


def compare(cases: Sequence[Case], differences: Sequence[Difference] = DIFFERENCES) -> Report:
    report = Report(len(cases), 0, {difference.name: [] for difference in differences}, [])
    fields = 0
    for (number, case), ours in zip(enumerate(cases, 1), _normalized(cases), strict=True):
        fields += sum(1 for _ in _leaves(case.normalized))
        for mismatch in _mismatches(number, case, ours):
            found = next((one for one in differences if one.explains(mismatch)), None)
            (report.unexplained if found is None else report.explained[found.name]).append(mismatch)
    return report._replace(fields=fields)


def _normalized(cases: Sequence[Case]) -> Iterator[Payload]:
    """Yield our payload of each record: the result's output, or the call's input after the record."""
    parser = parser_class("happier-trace")(Context(stream="goldens"))
    inputs: dict[str, Payload] = {}
    for case in cases:
        line_class, items = parser.feed(msgspec.json.encode(case.event))
        call_id = _call_id(case.payload)
        payload = Payload(f"no events ({line_class})", {})
        for event in (item.event for item in items if isinstance(item, Produced)):
            if isinstance(event, ToolCall | ToolUpdate):
                inputs[event.call_id] = Payload(event.name, event.input or inputs[event.call_id].payload)
            elif isinstance(event, PermissionRequest):
                call_id = event.call_id
            elif isinstance(event, ToolResult):
                payload = Payload(event.name, event.output)
        yield payload if payload.payload else inputs.get(str(call_id), payload)


def _call_id(payload: dict[str, Any]) -> Any:
    return payload.get("callId") or payload.get("id")


def _mismatches(line: int, case: Case, ours: Payload) -> Iterator[Mismatch]:
    if ours.name != case.canonical_tool_name:
        yield Mismatch(line, case, ours, "name", case.canonical_tool_name, ours.name)
    for pointer, expected, found in _differing(case.normalized, ours.payload, ""):
        yield Mismatch(line, case, ours, pointer, expected, found)


def _differing(expected: Any, found: Any, pointer: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            yield from _differing(value, found.get(key, ABSENT), f"{pointer}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differing(one, other, f"{pointer}/{number}")
    elif expected != found or isinstance(expected, bool) != isinstance(found, bool):
        yield pointer, expected, found


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _shown(value: Any) -> str:
    text = value if value is ABSENT else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        on_stderr("usage: python -m tests.kit.goldens FILE")
        return 2
    try:
        cases = read_cases(Path(arguments[0]).read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        on_stderr(f"goldens: cannot read {arguments[0]}: {reason}")
        return 2
    report = compare(cases)
    say(f"{report.cases} cases, {report.fields} fields of the ancestor")
    for difference in DIFFERENCES:
        say(f"{len(report.explained[difference.name]):6d} differ: {difference.name}: {difference.why}")
    for mismatch in report.unexplained:
        say(f"unexplained: {mismatch}")
    for name in report.unused:
        say(f"explains nothing, remove it: {name}")
    return 0 if report.is_good else 1


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
