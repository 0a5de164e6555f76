"""Items of OpenAI's Responses API: what each says of a tool call, or of its result.

A call is an item (`function_call`, `shell_call`, `web_search_call`, …). What the client runs is answered by an item of
its own (`<call>_output`) in the next request; what OpenAI runs has its result in the call's own item, or in an output
item behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.normalizers.dialects.codex.text import Answer, read_answer
from tooltap.normalizers.tools.payload import decode_json, objects
from tooltap.normalizers.wire.values import whole

__all__ = ["ItemCall", "answer_of", "call_of", "is_answer", "item_text", "own_answer", "with_image"]

_ENVELOPE = frozenset({"id", "type", "status", "call_id"})
_UNDONE = frozenset({"in_progress", "searching", "interpreting", "generating", "incomplete", "None"})
_RESULTS = frozenset({"outputs", "results", "output", "result", "data", "mimeType", "error"})
_NAMES = {
    "local_shell_call": "Bash",
    "shell_call": "Bash",
    "apply_patch_call": "Patch",
    "web_search_call": "WebSearch",
    "file_search_call": "CodeSearch",
    "tool_search_call": "ToolSearch",
}
_CHANGES = {"create_file": "add", "update_file": "modify", "delete_file": "delete"}


class ItemCall(NamedTuple):
    id: str
    raw_name: str
    value: Any
    name: str | None
    """Canonical, where the item's type says it."""


def call_of(item: dict[str, Any]) -> ItemCall | None:
    """The call an item is, if it is one."""
    kind = str(item.get("type"))
    if not (kind.endswith("_call") or kind == "mcp_approval_request"):
        return None
    named = [item.get(key) for key in ("approval_request_id", "call_id", "id")]
    call_id = next((one for one in named if isinstance(one, str) and one), None)
    if call_id is None:
        return None
    name = item.get("name")
    raw_name = name if isinstance(name, str) and name else kind
    canonical = _NAMES.get(kind)
    if kind in ("mcp_call", "mcp_approval_request") and isinstance(item.get("server_label"), str):
        canonical = f"mcp__{item['server_label']}__{raw_name}"
    return ItemCall(call_id, raw_name, _value(kind, item), canonical)


def _value(kind: str, item: dict[str, Any]) -> Any:
    if kind == "custom_tool_call":
        return item.get("input")
    if "arguments" in item:
        return decode_json(item["arguments"])
    if kind == "web_search_call":  # the sources are what it found
        action = item.get("action")
        return {"action": {k: v for k, v in action.items() if k != "sources"}} if isinstance(action, dict) else None
    if kind == "apply_patch_call":
        return _patch(item.get("operation"))
    if isinstance(action := item.get("action"), dict):
        return {key: value for key, value in action.items() if value not in ([], None)}
    return {key: value for key, value in item.items() if key not in _ENVELOPE | _RESULTS}


def _patch(operation: Any) -> Any:
    """An operation has one file's change; the `diff` of a new file is its lines, each behind a `+`."""
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        return operation
    kind, diff = operation.get("type"), operation.get("diff")
    change: dict[str, Any] = {"type": _CHANGES.get(str(kind), kind)}
    if kind == "create_file" and isinstance(diff, str):
        change["content"] = "".join(line.removeprefix("+") for line in diff.splitlines(keepends=True))
    elif isinstance(diff, str):
        change["diff"] = diff
    return {"changes": {operation["path"]: change}}


def own_answer(item: dict[str, Any]) -> Answer | None:
    """The result in a call's own item, where OpenAI ran the tool and is done with it."""
    kind, status = item.get("type"), item.get("status")
    if status == "failed" and kind not in ("shell_call", "local_shell_call", "apply_patch_call"):
        error = item.get("error")
        message = error.get("message") if isinstance(error, dict) else error
        return Answer(None, "failed", message if isinstance(message, str) else None)
    if kind == "mcp_call":
        return _mcp_answer(item)
    if str(status) in _UNDONE:
        return None
    if kind == "web_search_call":
        action = item.get("action")
        sources = action.get("sources") if isinstance(action, dict) else None
        return Answer({"results": sources} if isinstance(sources, list) else None)
    if kind == "file_search_call":
        return Answer({"matches": item["results"]} if isinstance(item.get("results"), list) else None)
    if kind == "code_interpreter_call":
        return Answer({"outputs": item.get("outputs")})
    if kind == "image_generation_call":
        return Answer({key: item[key] for key in ("data", "outputId", "mimeType") if key in item})
    return None


def with_image(item: dict[str, Any]) -> dict[str, Any]:
    """The item with the picture it holds, if any, named as a body."""
    if item.get("type") != "image_generation_call" or not isinstance(item.get("result"), str):
        return item
    rest = {key: value for key, value in item.items() if key != "result"}
    return {**rest, "data": item["result"], "mimeType": f"image/{item.get('output_format') or 'png'}"}


def _mcp_answer(item: dict[str, Any]) -> Answer | None:
    error = item.get("error")
    if error:
        return Answer(None, "failed", error if isinstance(error, str) else item_text(error) or str(error))
    return Answer(decode_json(item["output"])) if item.get("output") is not None else None


def is_answer(item: dict[str, Any]) -> bool:
    return str(item.get("type")).endswith("_output")


def answer_of(item: dict[str, Any]) -> Answer:
    """What an output item says came of its call."""
    output, kind = item.get("output"), item.get("type")
    if kind == "tool_search_output":
        return Answer({"tools": item.get("tools")})
    if kind == "shell_call_output" and isinstance(output, list):
        return _shell_answer(objects(output))
    answer = read_answer(output)
    if item.get("status") == "failed" and answer.status == "completed":
        text = output if isinstance(output, str) else None
        return Answer(None if text else answer.value, "failed", text)
    return answer


def _shell_answer(runs: list[dict[str, Any]]) -> Answer:
    """One entry a command; the batch failed where one of them did."""
    outcomes = [run["outcome"] for run in runs if isinstance(run.get("outcome"), dict)]
    codes = [code for one in outcomes if (code := whole(one.get("exit_code"))) is not None]
    value: dict[str, Any] = {
        stream: "".join(run[stream] for run in runs if isinstance(run.get(stream), str))
        for stream in ("stdout", "stderr")
    }
    if codes:
        value["exit_code"] = next((code for code in codes if code), codes[-1])
    timed_out = any(one.get("type") == "timeout" for one in outcomes)
    return Answer(value, "failed" if timed_out else "completed", "timeout" if timed_out else None)


def item_text(value: Any) -> str | None:
    """The text of a content part, whatever it is called."""
    if not isinstance(value, dict):
        return value if isinstance(value, str) else None
    return next((value[key] for key in ("text", "refusal", "message") if isinstance(value.get(key), str)), None)
