"""A scripted model that speaks the APIs of the agents' vendors on loopback: Anthropic Messages, OpenAI Chat Completions
and Responses, Gemini.

The script is chosen by the marker `[[name]]` in the last prompt that has one, and its step by the number of the model's
turns since then. So the server keeps no state, and subagents, resumed sessions and retries need nothing of their own.
A request that offers no tools is for a title or the like, and gets a short text.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, pairwise
from typing import Any, ClassVar, NamedTuple, TypeAlias

MARKER = re.compile(r"\[\[(\w+)\]\]")
ASIDE = "A scripted session"
"""The answer to a request without tools."""
SEARCH = "tool_search"
"""The tool with which Codex' model searches for tools."""
OVER = "Nothing is left to do."
"""The answer after the last step of a script."""


class Found(NamedTuple):
    """An argument that the agent has named: the first text of its request, as JSON, that matches."""

    pattern: str
    number: bool = False
    """Whether the argument is the number that the text is."""


class Call(NamedTuple):
    """A call of a tool; `arguments` is a string if the tool takes free text, and its values may be `Found`."""

    tool: str
    arguments: dict[str, Any] | str
    namespace: str = ""
    """Of Codex' tools, in which this one is."""

    def with_arguments(self, **further: Any) -> Call:
        assert isinstance(self.arguments, dict)
        return self._replace(arguments={**self.arguments, **further})


class Refusal(NamedTuple):
    """What the server answers instead of the model, the first `times` that it is asked."""

    status: int
    times: int


Step: TypeAlias = "str | Call | Refusal"
"""A turn of the model: a text, or a call; or what comes before it."""
Script: TypeAlias = "Mapping[str, Sequence[Step]]"
"""Steps by the marker that starts them."""

_Said: TypeAlias = "str | Call"

_numbers = count(1)


class _RefusedError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Model:
    """The server. `url`: its address, without a path."""

    def __init__(self, script: Script) -> None:
        handler = type("Handler", (_Handler,), {"script": script, "refused": Counter[str]()})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ClassVar[Script] = {}
    refused: ClassVar[Counter[str]] = Counter()
    """Marker -> requests that were refused."""

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._whole({})

    def do_GET(self) -> None:
        if self.headers.get("upgrade"):  # Codex goes on with plain requests
            self._whole({"error": {"message": "no WebSocket"}}, 426)
        elif self.path.split("?")[0].endswith("/models"):
            self._whole({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "test"}]})
        else:
            self._whole({"error": {"message": "not found"}}, 404)

    def do_POST(self) -> None:
        body, path = self._body(), self.path.split("?")[0]
        try:
            if path.endswith(("/count_tokens", ":countTokens")):
                self._whole({"input_tokens": 100, "totalTokens": 100})
            elif path.endswith("/messages"):
                self._reply(body, _anthropic(body, self._step(body, _said_to_anthropic(body))), _anthropic_stream)
            elif path.endswith("/chat/completions"):
                self._reply(body, _chat(body, self._step(body, _said_to_chat(body))), _chat_stream)
            elif path.endswith("/responses"):
                self._reply(body, _response(body, self._step(body, _said_to_responses(body))), _response_stream)
            elif path.endswith("enerateContent"):
                body["stream"] = ":stream" in path
                self._reply(body, _gemini(self._step(body, _said_to_gemini(body))), _gemini_stream)
            else:
                self._whole({"error": {"message": "not found"}}, 404)
        except _RefusedError as refused:
            reason = {"type": "invalid_request_error", "code": refused.status, "message": "The script refuses."}
            self._whole({"type": "error", "error": reason}, refused.status)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _step(self, body: dict[str, Any], said: Sequence[tuple[str, str]]) -> _Said:
        """The model's next turn. `said`: role (`user`, `assistant` or another) and text of each part of the
        conversation."""
        if not (body.get("tools") or any(one.get("tools") for one in _items(body))):
            return ASIDE
        name, start = None, 0
        for place, (role, text) in enumerate(said):
            if role == "user" and (found := MARKER.findall(text)):
                name, start = found[-1], place
        name = name or ""
        steps = [one for one in self.script.get(name, ()) if not isinstance(one, Refusal)]
        for refusal in self.script.get(name, ()):
            if isinstance(refusal, Refusal) and self.refused[name] < refusal.times:
                self.refused[name] += 1
                raise _RefusedError(refusal.status)
        roles = [role for role, _ in said[start:]]
        turns = sum(one == "assistant" and before != "assistant" for before, one in pairwise(roles))
        step = steps[turns] if turns < len(steps) else OVER
        if isinstance(step, Call) and isinstance(step.arguments, dict):
            return step._replace(arguments={key: _found(value, body) for key, value in step.arguments.items()})
        return step

    def _body(self) -> dict[str, Any]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(data or b"{}")
        assert isinstance(body, dict)
        return body

    def _reply(self, body: dict[str, Any], whole: dict[str, Any], stream: Any) -> None:
        if not body.get("stream"):
            self._whole(whole)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", _id("req_"))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event, data in stream(whole):
            name = f"event: {event}\n" if event else ""
            text = f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.write(b"0\r\n\r\n")

    def _whole(self, value: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("request-id", _id("req_"))
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _id(prefix: str) -> str:
    return f"{prefix}{next(_numbers):024d}"


def _text_of(content: Any, key: str = "text") -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get(key) or "") for part in content or [] if isinstance(part, dict))


_Events: TypeAlias = "Iterator[tuple[str | None, Any]]"
"""Name and data of each server-sent event."""


# -- Anthropic Messages ------------------------------------------------------------------------------------------------


def _said_to_anthropic(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], _text_of(one.get("content"))) for one in body.get("messages", [])]


def _anthropic(body: dict[str, Any], step: _Said) -> dict[str, Any]:
    if isinstance(step, Call):
        block = {"type": "tool_use", "id": _id("toolu_"), "name": step.tool, "input": step.arguments}
    else:
        block = {"type": "text", "text": step}
    return {
        "id": _id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [block],
        "stop_reason": "tool_use" if isinstance(step, Call) else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 100,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 10,
        },
    }


def _anthropic_stream(whole: dict[str, Any]) -> _Events:
    def event(name: str, **fields: Any) -> tuple[str, Any]:
        return name, {"type": name, **fields}

    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    (block,) = whole["content"]
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield event("content_block_start", index=0, content_block=empty)
    yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    yield event("message_delta", delta={"stop_reason": whole["stop_reason"]}, usage=whole["usage"])
    yield event("message_stop")


# -- OpenAI Chat Completions -------------------------------------------------------------------------------------------


def _said_to_chat(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], _text_of(one.get("content"))) for one in body.get("messages", [])]


def _chat(body: dict[str, Any], step: _Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if isinstance(step, Call):
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        message["tool_calls"] = [{"index": 0, "id": _id("call_"), "type": "function", "function": function}]
    reason = "tool_calls" if isinstance(step, Call) else "stop"
    return {
        "id": _id("chatcmpl-"),
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", "scripted"),
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def _found(value: Any, body: dict[str, Any]) -> Any:
    if not isinstance(value, Found):
        return value
    match = re.search(value.pattern, json.dumps(body))
    if match is None:
        return f"nothing like {value.pattern}"
    return int(match[0]) if value.number else match[0]


def _chat_stream(whole: dict[str, Any]) -> _Events:
    (choice,) = whole["choices"]
    chunk = {**whole, "object": "chat.completion.chunk"}
    yield None, {**chunk, "usage": None, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield None, {**chunk, "usage": None, "choices": [end]}
    yield None, {**chunk, "choices": []}
    yield None, "[DONE]"


# -- OpenAI Responses --------------------------------------------------------------------------------------------------


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of a request, of which one may have tools."""
    given = body.get("input")
    return given if isinstance(given, list) else []


def _said_to_responses(body: dict[str, Any]) -> list[tuple[str, str]]:
    if isinstance(body.get("input"), str):
        return [("user", body["input"])]
    said = []
    for item in _items(body):
        kind = item.get("type", "message")
        if kind == "message":
            said.append((item["role"], _text_of(item.get("content"))))
        else:
            said.append(("assistant" if kind == "reasoning" or kind.endswith("_call") else "tool", ""))
    return said


def _response(body: dict[str, Any], step: _Said) -> dict[str, Any]:
    item: dict[str, Any]
    if isinstance(step, str):
        part = {"type": "output_text", "text": step, "annotations": []}
        item = {"type": "message", "id": _id("msg_"), "role": "assistant", "status": "completed", "content": [part]}
    elif isinstance(step.arguments, str):
        item = {"type": "custom_tool_call", "id": _id("ctc_"), "input": step.arguments}
    elif step.tool == SEARCH:
        item = {"type": "tool_search_call", "id": _id("tsc_"), "execution": "client", "arguments": step.arguments}
    else:
        item = {"type": "function_call", "id": _id("fc_"), "arguments": json.dumps(step.arguments)}
        if step.namespace:
            item["namespace"] = step.namespace
    if isinstance(step, Call):
        item |= {"call_id": _id("call_"), "name": step.tool, "status": "completed"}
    return {
        "id": _id("resp_"),
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body.get("model", "scripted"),
        "output": [item],
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 110,
        },
    }


def _response_stream(whole: dict[str, Any]) -> _Events:
    numbers = count()

    def event(name: str, **fields: Any) -> tuple[str, Any]:
        return name, {"type": name, "sequence_number": next(numbers), **fields}

    (item,) = whole["output"]
    yield event("response.created", response={**whole, "status": "in_progress", "output": [], "usage": None})
    yield event("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
    if item["type"] == "message":
        text = item["content"][0]["text"]
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        yield event("response.content_part.added", **place, part={**item["content"][0], "text": ""})
        yield event("response.output_text.delta", **place, delta=text)
        yield event("response.output_text.done", **place, text=text)
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=whole)


# -- Gemini ------------------------------------------------------------------------------------------------------------


def _said_to_gemini(body: dict[str, Any]) -> list[tuple[str, str]]:
    said = []
    for one in body.get("contents", []):
        parts = one.get("parts", [])
        if one.get("role") == "model":
            said.append(("assistant", ""))
        elif any("functionResponse" in part for part in parts):
            said.append(("tool", ""))
        else:
            said.append(("user", _text_of(parts)))
    return said


def _gemini(step: _Said) -> dict[str, Any]:
    part = {"functionCall": {"name": step.tool, "args": step.arguments}} if isinstance(step, Call) else {"text": step}
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
        "modelVersion": "scripted",
        "responseId": _id("r"),
    }


def _gemini_stream(whole: dict[str, Any]) -> _Events:
    yield None, whole
