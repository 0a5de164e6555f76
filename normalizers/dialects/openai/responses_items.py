"""Items of OpenAI's Responses API: the tool call or the result that an item is, and which items of a request are new.

A call is an item (`function_call`, `shell_call`, `web_search_call`, …). The client answers the calls it runs with items
of their own (`<call>_output`) in the next request; the result of a call that OpenAI runs is in the call's own item, or
in an output item after it. A request repeats the conversation, unless it names the response it continues.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.codex.answers import read_answer
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import first_string, record, records, string, whole

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
_CLIENT_ROLES = ("user", "system", "developer")


class ItemCall(NamedTuple):
    id: str
    raw_name: str
    value: Any
    name: str | None
    """The canonical name, where the item's type determines it."""


def call_of(item: Line) -> ItemCall | None:
    """The call that an item is, if it is one."""
    kind = str(item.get("type"))
    call_id = first_string(item, "approval_request_id", "call_id", "id")
    if call_id is None or not (kind.endswith("_call") or kind == "mcp_approval_request"):
        return None
    raw_name = first_string(item, "name") or kind
    name = _NAMES.get(kind)
    if kind in ("mcp_call", "mcp_approval_request") and isinstance(item.get("server_label"), str):
        name = f"mcp__{item['server_label']}__{raw_name}"
    return ItemCall(call_id, raw_name, _value(kind, item), name)


def _value(kind: str, item: Line) -> Any:
    if kind == "custom_tool_call":
        return item.get("input")
    if "arguments" in item:
        return decode_json(item["arguments"])
    action = item.get("action")
    if kind == "web_search_call":  # the sources are what it found
        return {"action": {k: v for k, v in action.items() if k != "sources"}} if isinstance(action, dict) else None
    if kind == "apply_patch_call":
        return _patch(item.get("operation"))
    if isinstance(action, dict):
        return {key: value for key, value in action.items() if value not in ([], None)}
    return {key: value for key, value in item.items() if key not in _ENVELOPE | _RESULTS}


def _patch(operation: Any) -> Any:
    """An operation changes one file; the `diff` of a new file is its lines, each after a `+`."""
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        return operation
    kind, diff = operation.get("type"), operation.get("diff")
    change: dict[str, Any] = {"type": _CHANGES.get(str(kind), kind)}
    if kind == "create_file" and isinstance(diff, str):
        change["content"] = "".join(line.removeprefix("+") for line in diff.splitlines(keepends=True))
    elif isinstance(diff, str):
        change["diff"] = diff
    return {"changes": {operation["path"]: change}}


def own_answer(item: Line) -> Answer | None:
    """The result in a call's own item, where OpenAI ran the tool and has finished."""
    kind, status, error = item.get("type"), item.get("status"), item.get("error")
    if status == "failed" and kind not in ("shell_call", "local_shell_call", "apply_patch_call"):
        return Answer(None, "failed", string(error.get("message") if isinstance(error, dict) else error))
    if kind == "mcp_call":
        if error:
            return Answer(None, "failed", item_text(error) or str(error))
        return Answer(decode_json(item["output"])) if item.get("output") is not None else None
    if str(status) in _UNDONE:
        return None
    if kind == "web_search_call":
        sources = record(item.get("action")).get("sources")
        return Answer({"results": sources} if isinstance(sources, list) else None)
    if kind == "file_search_call":
        return Answer({"matches": item["results"]} if isinstance(item.get("results"), list) else None)
    if kind == "code_interpreter_call":
        return Answer({"outputs": item.get("outputs")})
    if kind == "image_generation_call":
        return Answer({key: item[key] for key in ("data", "outputId", "mimeType") if key in item})
    return None


def with_image(item: Line) -> Line:
    """The item with the picture it holds, if any, under the keys of an output body."""
    if item.get("type") != "image_generation_call" or not isinstance(item.get("result"), str):
        return item
    rest = {key: value for key, value in item.items() if key != "result"}
    return {**rest, "data": item["result"], "mimeType": f"image/{item.get('output_format') or 'png'}"}


def is_answer(item: Line) -> bool:
    return str(item.get("type")).endswith("_output")


def answer_of(item: Line) -> Answer:
    """The result in an output item."""
    output, kind = item.get("output"), item.get("type")
    if kind == "tool_search_output":
        return Answer({"tools": item.get("tools")})
    if kind == "shell_call_output" and isinstance(output, list):
        return _shell_answer(records(output))
    read = read_answer(output)
    if item.get("status") == "failed" and read.status == "completed":
        return Answer(None if output and isinstance(output, str) else read.value, "failed", string(output))
    return Answer(read.value, read.status, read.error, read.duration_ms)  # final, though Codex may run a session on


def _shell_answer(runs: list[Line]) -> Answer:
    """The result of a batch, one entry for each command; the batch failed where one of them did."""
    outcomes = [run["outcome"] for run in runs if isinstance(run.get("outcome"), dict)]
    codes = [code for one in outcomes if (code := whole(one.get("exit_code"))) is not None]
    value: dict[str, Any] = {
        stream: "".join(run[stream] for run in runs if isinstance(run.get(stream), str))
        for stream in ("stdout", "stderr")
    }
    if codes:
        value["exit_code"] = next((code for code in codes if code), codes[-1])
    timed_out = any(one.get("type") == "timeout" for one in outcomes)
    return Answer(value, "failed", "timeout") if timed_out else Answer(value)


def item_text(value: Any) -> str | None:
    """The text of a content part, under whichever key."""
    if not isinstance(value, dict):
        return string(value)
    return next((value[key] for key in ("text", "refusal", "message") if isinstance(value.get(key), str)), None)


class PromptsState(msgspec.Struct):
    """The user's messages of the last request."""

    count: int = 0
    crc: int = 0


def news_of(items: list[Line], known: PromptsState, *, continues: bool) -> tuple[int, list[Line]]:
    """Index of a request's first item since the model's last, and the user's messages that are new; updates `known`.

    New are those that the last request did not hold. Where its messages do not begin this one, or this one continues a
    response, those since the model's last item are new."""
    new = next((index + 1 for index in range(len(items) - 1, -1, -1) if not _is_of_client(items[index])), 0)
    prompts = [(index, item) for index, item in enumerate(items) if item.get("role") == "user"]
    crc, repeated = 0, 0
    for count, (_, item) in enumerate(prompts, 1):
        crc = zlib.crc32(msgspec.json.encode(item.get("content")), crc)
        if (count, crc) == (known.count, known.crc) and not continues:
            repeated = count
    known.count, known.crc = len(prompts), crc
    if repeated:
        return new, [item for _, item in prompts[repeated:]]
    return new, [item for index, item in prompts if index >= new]


def _is_of_client(item: Line) -> bool:
    return is_answer(item) or item.get("role") in _CLIENT_ROLES or item.get("type") == "mcp_approval_response"
