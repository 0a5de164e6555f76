"""What each row of the coverage page proves: a call and its result as clients get them, cut to a reviewable size."""

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.kit.coverage import MCP, has_content, proofs
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import ToolCall, ToolResult, ToolUpdate
from tooltap.testing import normalize, read_recording

FIXTURES = Path(__file__).parents[2] / "fixtures"
STRING = 160
ITEMS = 2


@pytest.mark.parametrize("dialect", sorted(builtin()))
def test_tool_call_and_result(dialect: str, snapshot: SnapshotAssertion, subtests: pytest.Subtests) -> None:
    for tool, path in sorted(proofs(FIXTURES / dialect).items()):
        with subtests.test(tool):
            assert first_call(dialect, tool, path) == snapshot(name=tool)


def first_call(dialect: str, tool: str, path: Path) -> dict[str, Any]:
    """The tool's first call with a result, preferably one with output: its input with all updates, and the result."""
    calls: dict[str, dict[str, Any]] = {}
    answered: list[tuple[bool, dict[str, Any]]] = []
    for event in normalize(dialect, read_recording(path.read_bytes())):
        if isinstance(event, ToolCall):
            calls[event.call_id] = {"rawName": event.input["_happy"]["rawToolName"], "input": payload(event.input)}
        elif isinstance(event, ToolUpdate) and event.input is not None:
            calls[event.call_id]["input"] = payload(event.input)
        elif isinstance(event, ToolResult) and not event.synthetic and is_of(event.name, tool):
            result = {"status": event.status, "output": payload(event.output)}
            answered.append((has_content(event), {**calls[event.call_id], **result}))
    _, first = max(answered, key=lambda one: one[0])
    return {"fixture": f"{path.parent.name}/{path.stem}", **first}


def is_of(name: str, tool: str) -> bool:
    return name.startswith("mcp__") if tool == MCP else name == tool


def payload(value: dict[str, Any]) -> dict[str, Any]:
    return {key: cut(item) for key, item in value.items() if key not in ("_happy", "_raw")}


def cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= STRING else f"{value[:STRING]}… ({len(value)})"
    if isinstance(value, list):
        return [cut(item) for item in value[:ITEMS]] + ([f"… ({len(value)})"] if len(value) > ITEMS else [])
    if isinstance(value, dict):
        return {key: cut(item) for key, item in value.items()}
    return value
