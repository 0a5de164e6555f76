"""Codex's other tools: MCP, the client's own, web search, images, plans, other agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL
from tooltap.normalizers.dialects.codex.calls import as_event
from tooltap.normalizers.dialects.codex.state import (
    ITEM,
    CodexReader,
    Handlers,
    Msg,
    call_id_of,
    details,
    duration_of,
    knowing,
    object_of,
    text_of,
    type_word,
)
from tooltap.normalizers.dialects.codex.text import Answer, read_answer
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.tools.views import by_structure

if TYPE_CHECKING:
    from tooltap.normalizers.dialects.codex.base import CodexParser

__all__ = ["CodexTools"]

_ANY_AGENT_TOOL = "collab_agent_tool_call"
"""The item's type; it says which tool in `tool`."""

_AGENT_INPUT = ("prompt", "model", "reasoning_effort", "receiver_thread_id", "receiver_thread_ids")
_AGENT_OUTPUT = ("status", "statuses", "agents_states", "agent_statuses", "new_thread_id", "new_agent_nickname")


class CodexTools(CodexReader):
    def __init__(self, parser: CodexParser) -> None:
        self._parser = parser
        self._tools = parser.tools

    # -- MCP and the client's own tools ---------------------------------------------------------------------------

    def _mcp_begin(self, msg: Msg) -> str:
        call = object_of(msg, "invocation") or msg
        name = f"mcp__{call.get('server')}__{call.get('tool')}"
        return self._tools.called(call_id_of(msg), name, call.get("arguments") or {}, msg)

    def _mcp_end(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if self._parser.calls.is_over(call_id):
            return DUPLICATE_RESULT
        self._mcp_begin(msg)
        bodies = Bodies(self._parser)
        raw = bodies.take(msg)
        result = object_of(raw, "result")
        value = object_of(result, "Ok") or ({} if "Err" in result else result)
        error = text_of(result, "Err") or text_of(object_of(raw, "error"), "message") or text_of(raw, "error")
        failed = value.get("isError") is True or msg.get("status") == "failed"
        if error is None and failed:
            error = blocks_text(value.get("content"))
        status = "completed" if error is None else read_answer(error).status
        if status == "completed" and (error is not None or failed):
            status = "failed"
        value, display = by_structure(value)
        answer = Answer(value, status, error, duration_ms=duration_of(msg), display=display)
        return self._tools.ended(call_id, answer, raw, attachments=bodies.attachments)

    def _dynamic_begin(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        return self._tools.called(call_id, text_of(msg, "tool") or UNKNOWN_TOOL, msg.get("arguments"), msg)

    def _dynamic_end(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if self._parser.calls.is_over(call_id):
            return DUPLICATE_RESULT
        self._dynamic_begin(msg)
        bodies = Bodies(self._parser)
        raw = bodies.take(msg)
        failed = msg.get("success") is False or msg.get("status") == "failed"
        answer = Answer(
            {"content": raw["content_items"]} if isinstance(raw.get("content_items"), list) else raw.get("result"),
            "failed" if failed else "completed",
            text_of(msg, "error"),
            duration_ms=duration_of(msg),
        )
        return self._tools.ended(call_id, answer, raw, attachments=bodies.attachments)

    # -- web search -----------------------------------------------------------------------------------------------

    def _web_search_begin(self, msg: Msg) -> str:
        return self._tools.called(call_id_of(msg), type_word(msg, "web_search"), details(msg, "query", "action"), msg)

    def _web_search_end(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if self._parser.calls.is_over(call_id):
            return DUPLICATE_RESULT
        self._web_search_begin(msg)
        self._parser.thread.searches += 1
        return self._tools.ended(call_id, Answer(None), msg)

    def _raw_web_search(self, item: Msg) -> str:
        """Without an id (0.120) it repeats a search that has ended, unless none has."""
        thread = self._parser.thread
        call_id = text_of(item, "call_id", "id")
        if call_id is None and thread.searches:
            thread.searches -= 1
            return DUPLICATE_RESULT
        call_id = call_id or self._parser.made_up_id("web_search")
        if self._parser.calls.is_over(call_id):
            return DUPLICATE_RESULT
        self._tools.called(call_id, "web_search", details(item, "query", "action"), item)
        status = "failed" if item.get("status") == "failed" else "completed"
        return self._tools.ended(call_id, Answer(None, status), item)

    def _tool_search(self, item: Msg) -> str:
        call_id = call_id_of(item)
        return self._tools.called(call_id, "tool_search", item.get("arguments"), item)

    def _tool_search_output(self, item: Msg) -> str:
        call_id = call_id_of(item)
        return self._tools.ended(call_id, Answer(details(item, "tools")), item, raw_name="tool_search")

    # -- images ---------------------------------------------------------------------------------------------------

    def _view_image(self, msg: Msg) -> str:
        """Comes when the image is attached; what the model sees follows as the call's output, if it follows."""
        call_id = call_id_of(msg)
        call = self._parser.calls.get(call_id)
        line_class = self._view_begin(msg)
        if self._parser.calls.is_over(call_id) or (call is not None and call.raw_name == "view_image"):
            return line_class
        return self._tools.ended(call_id, Answer(None), msg)

    def _view_begin(self, msg: Msg) -> str:
        return self._tools.called(call_id_of(msg), type_word(msg, "view_image"), details(msg, "path"), msg)

    def _image_begin(self, msg: Msg) -> str:
        prompt = text_of(msg, "revised_prompt")
        value = {} if prompt is None else {"prompt": prompt}
        raw_name = type_word(msg, "image_generation")
        return self._tools.called(call_id_of(msg), raw_name, value, msg, name="image_generation")

    def _image_end(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if self._parser.calls.is_over(call_id):
            return DUPLICATE_RESULT
        self._image_begin({key: value for key, value in msg.items() if key not in ("result", ITEM)})
        bodies = Bodies(self._parser)
        taken = {"result": bodies.take({"data": msg.get("result"), "mimeType": "image/png"})}
        raw = {**object_of(msg, ITEM), **taken} if ITEM in msg else {**msg, **taken}
        status = "failed" if msg.get("status") == "failed" else "completed"
        answer = Answer(details(msg, "saved_path"), status)
        return self._tools.ended(call_id, answer, raw, attachments=bodies.attachments)

    # -- plans ----------------------------------------------------------------------------------------------------

    def _plan_update(self, msg: Msg) -> str:
        """Belongs to the `update_plan` call that is running; where those are not on the wire, it is all there is."""
        value = details(msg, "explanation", "plan")
        call = self._parser.calls.get(self._parser.thread.plan_call or "")
        if call is not None:
            return self._tools.called(call.id, call.raw_name, value, msg)
        call_id = self._parser.made_up_id("plan")
        self._parser.before_content()
        self._parser.calls.open(call_id, "update_plan", value, raw=msg, synthetic=True)
        return self._parser.calls.result(call_id, None, raw=None, synthetic=True)

    # -- other agents ---------------------------------------------------------------------------------------------

    def _agent_begin(self, tool: str, msg: Msg) -> str:
        """`tool`: as the model calls it."""
        call = self._parser.calls.get(call_id_of(msg))
        asked = call.memory if call is not None else {}
        value = {**asked, **details(msg, "tool", *_AGENT_INPUT)}
        return self._tools.called(call_id_of(msg), type_word(msg, tool), value, msg)

    def _agent_end(self, tool: str, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if self._parser.calls.is_over(call_id):
            return DUPLICATE_RESULT
        call = self._parser.calls.get(call_id)
        line_class = self._agent_begin(tool, msg)
        status = "failed" if msg.get("status") == "failed" else "completed"
        value = details(msg, *_AGENT_OUTPUT)
        if call is not None and call.memory and value == {"status": "completed"}:
            return line_class  # it ended, and no more (0.169): what the model is told follows as the call's output
        return self._tools.ended(call_id, Answer(value, status), msg)

    # -- what reads what -------------------------------------------------------------------------------------------

    EVENTS: ClassVar[Handlers] = {
        "dynamic_tool_call_request": _dynamic_begin,
        "dynamic_tool_call_response": _dynamic_end,
        "image_generation_begin": _image_begin,
        "image_generation_end": _image_end,
        "mcp_tool_call_begin": _mcp_begin,
        "mcp_tool_call_end": _mcp_end,
        "plan_update": _plan_update,
        "view_image_tool_call": _view_image,
        "web_search_begin": _web_search_begin,
        "web_search_end": _web_search_end,
        "collab_agent_interaction_begin": knowing(_agent_begin, "send_input"),
        "collab_agent_interaction_end": knowing(_agent_end, "send_input"),
        "collab_agent_spawn_begin": knowing(_agent_begin, "spawn_agent"),
        "collab_agent_spawn_end": knowing(_agent_end, "spawn_agent"),
        "collab_close_begin": knowing(_agent_begin, "close_agent"),
        "collab_close_end": knowing(_agent_end, "close_agent"),
        "collab_resume_begin": knowing(_agent_begin, "resume_agent"),
        "collab_resume_end": knowing(_agent_end, "resume_agent"),
        "collab_waiting_begin": knowing(_agent_begin, "wait_agent"),
        "collab_waiting_end": knowing(_agent_end, "wait_agent"),
    }
    STARTS: ClassVar[Handlers] = {
        "CollabAgentToolCall": as_event(knowing(_agent_begin, _ANY_AGENT_TOOL)),
        "DynamicToolCall": as_event(_dynamic_begin),
        "ImageGeneration": as_event(_image_begin),
        "ImageView": as_event(_view_begin),
        "McpToolCall": as_event(_mcp_begin),
        "WebSearch": as_event(_web_search_begin),
    }
    ENDS: ClassVar[Handlers] = {
        "CollabAgentToolCall": as_event(knowing(_agent_end, _ANY_AGENT_TOOL)),
        "DynamicToolCall": as_event(_dynamic_end),
        "ImageGeneration": as_event(_image_end),
        "ImageView": as_event(_view_image),
        "McpToolCall": as_event(_mcp_end),
        "WebSearch": as_event(_web_search_end),
    }
    RAW_ITEMS: ClassVar[Handlers] = {
        "image_generation_call": as_event(_image_end),
        "tool_search_call": _tool_search,
        "tool_search_output": _tool_search_output,
        "web_search_call": _raw_web_search,
    }
