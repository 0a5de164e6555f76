"""The check against the ancestor's cases, with our own cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.kit.goldens import ABSENT, DIFFERENCES, compare, main, read_cases


def case(
    kind: str, payload: dict[str, Any], name: str, normalized: dict[str, Any], provider: str = "opencode"
) -> dict[str, Any]:
    event = {"v": 1, "ts": 1, "direction": "outbound", "sessionId": "s", "protocol": "acp", "provider": provider}
    return {
        "key": "k",
        "event": {**event, "kind": kind, "payload": payload},
        "canonicalToolName": name,
        "normalized": normalized,
    }


def call(call_id: str, name: str, value: Any, canonical: str, normalized: dict[str, Any]) -> dict[str, Any]:
    return case("tool-call", {"callId": call_id, "name": name, "input": value}, canonical, normalized)


def result(call_id: str, output: Any, canonical: str, normalized: dict[str, Any]) -> dict[str, Any]:
    return case("tool-result", {"callId": call_id, "output": output}, canonical, normalized)


def asks(
    call_id: str, name: str, tool_call: dict[str, Any], canonical: str, normalized: dict[str, Any]
) -> dict[str, Any]:
    payload = {"permissionId": call_id, "toolName": name, "options": {"toolCall": tool_call, "input": {}}}
    return case("permission-request", payload, canonical, normalized)


UPDATE = {"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n", "move_path": None}
ENVELOPE = {"kind": "read", "rawInput": {"filepath": "/etc/hosts"}, "title": "Read /etc/hosts"}
SAME = [
    call("1", "execute", {"command": "ls"}, "Bash", {"command": "ls", "_raw": {"command": "ls"}}),
    call("1", "execute", {"command": "ls"}, "Bash", {"command": "ls"}),
    result("1", "app.py\n", "Bash", {"stdout": "app.py\n"}),
]
EXPLAINED = {
    "acp-envelope": [asks("2", "read", ENVELOPE, "Read", ENVELOPE)],
    "named-by-permission": [
        asks("3", "edit", {"rawInput": {"path": "a"}}, "Edit", {"path": "a"}),
        result("3", {"error": "no"}, "Unknown", {"error": "no"}),
    ],
    "named-by-call": [
        call("4", "edit", {"path": "a", "content": "x"}, "Write", {"path": "a"}),
        asks("4", "edit", {"rawInput": {"path": "a"}}, "Edit", {"path": "a"}),
    ],
    "named-by-title": [call("5", "other", {"_acp": {"kind": "other", "title": "todowrite"}}, "other", {})],
    "json-decoded": [result("5", '[{"content": "x"}]', "TodoWrite", {"value": '[{"content": "x"}]'})],
    "numbered-lines": [
        call("6", "read", {"path": "a"}, "Read", {"path": "a"}),
        result("6", "<file>\n00001| a\n\n</file>", "Read", {"file": {"content": "a", "numLines": 2}}),
    ],
    "kinds-of-change": [
        call("7", "edit", {"changes": {"a": UPDATE}}, "Patch", {"changes": {"a": {"type": "update"}}}),
    ],
    "null": [
        call("8", "edit", {"changes": {"a": UPDATE}}, "Patch", {"changes": {"a": {"move_path": None}}}),
    ],
}
ALL = SAME + [one for cases in EXPLAINED.values() for one in cases]


def write(path: Path, cases: list[dict[str, Any]]) -> str:
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in cases))
    return str(path)


def report_of(cases: list[dict[str, Any]]) -> Any:
    return compare(read_cases(b"\n".join(map(orjson.dumps, cases))))


def test_equal_payloads_need_no_explanation() -> None:
    report = report_of(SAME)

    assert report.unexplained == []
    assert set(report.unused) == {difference.name for difference in DIFFERENCES}


def test_every_difference_has_a_case() -> None:
    assert set(EXPLAINED) == {difference.name for difference in DIFFERENCES}


@pytest.mark.parametrize("name", EXPLAINED)
def test_difference_explains_its_case(name: str) -> None:
    report = report_of(ALL)

    assert report.unexplained == []
    assert report.explained[name]


@pytest.mark.parametrize(
    ("wrong", "pointer", "found"),
    [
        (call("x", "execute", {"command": "ls"}, "Grep", {}), "name", "Bash"),
        (call("x", "execute", {"command": "ls"}, "Bash", {"command": "ls -la"}), "/command", "ls"),
        (call("x", "execute", {"command": "ls"}, "Bash", {"cwd": "/"}), "/cwd", ABSENT),
        (call("x", "execute", {"n": 1}, "Bash", {"n": True}), "/n", 1),
        (call("x", "execute", {"n": [1, 2]}, "Bash", {"n": [1]}), "/n", [1, 2]),
        (call("x", "execute", {"n": [{"a": 1}]}, "Bash", {"n": [{"a": 2}]}), "/n/0/a", 1),
        (result("1", "again", "Bash", {"stdout": "again"}), "/stdout", ABSENT),
    ],
)
def test_other_difference_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any], pointer: str, found: Any
) -> None:
    report = report_of([*ALL, wrong])

    assert [(mismatch.pointer, mismatch.found) for mismatch in report.unexplained] == [(pointer, found)]
    assert main([write(tmp_path / "cases", [*ALL, wrong])]) == 1
    assert f"unexplained: line {len(ALL) + 1}, {wrong['event']['kind']} of Bash, {pointer}" in capsys.readouterr().out


def test_unused_difference_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [one for name, cases in EXPLAINED.items() for one in cases if name not in ("null", "kinds-of-change")]

    assert main([write(tmp_path / "cases", cases)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-2:] == ["explains nothing, remove it: kinds-of-change", "explains nothing, remove it: null"]


def test_explained_differences_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path / "cases", ALL)]) == 0
    assert capsys.readouterr().out.startswith(f"{len(ALL)} cases, ")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file or directory"),
        (b"", "it contains no cases"),
        (b'{"event": {}}\n', "line 1 is not a case"),
        (b"\x00\xff", "line 1 is not a case"),
    ],
)
def test_invalid_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, told: str
) -> None:
    path = tmp_path / "cases"
    if content is not None:
        path.write_bytes(content)

    assert main([str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"goldens: cannot read {path}: ")
    assert told in error
    assert error.count("\n") == 1


def test_one_file_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: python -m tests.kit.goldens FILE\n"
