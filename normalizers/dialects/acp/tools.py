"""Tool calls of an ACP session: the first line opens a call, later ones are merged into it, a terminal status ends it.

Calls, permission requests and, in v2, content chunks all describe the same call in the same terms; what they said is
kept in the call's memory (`ToolUse`), because the input or the output may be spread over them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.acp.content import blocks, diffs, json_object, linked, text_of
from tooltap.normalizers.dialects.acp.inputs import ReadInput, ToolUse, read_input
from tooltap.normalizers.dialects.acp.names import mcp_name, raw_name, stated_name
from tooltap.normalizers.dialects.acp.plans import Plans
from tooltap.normalizers.dialects.acp.results import printed_so_far, read_result
from tooltap.normalizers.dialects.acp.state import AcpState, Terminal
from tooltap.normalizers.dialects.acp.terminals import Terminals
from tooltap.normalizers.wire.values import record
from tooltap.protocol.events import Chunk, OutputRef, ToolUpdate

__all__ = ["ToolCalls"]

_RUNNING = ("in_progress", "paused")
_ENDED = ("completed", "failed", "cancelled")
_INPUT_FIELDS = frozenset({"rawInput", "title", "kind", "name", "content", "locations"})


class ToolCalls:
    def __init__(self, parser: Parser, terminals: Terminals, plans: Plans) -> None:
        self._parser = parser
        self._state: AcpState = parser.state
        self._terminals = terminals
        self._plans = plans

    def knows(self, update: dict[str, Any]) -> bool:
        """Whether an update is about a call that was seen before."""
        call_id = update.get("toolCallId")
        return isinstance(call_id, str) and self._parser.calls.is_known(call_id)

    # -- reports ------------------------------------------------------------------------------------------------

    def report(self, update: dict[str, Any], *, opens: bool, stopping: bool = False) -> str:
        """Read a `tool_call` or `tool_call_update`; gives the line's class. `opens`: it may be a call's first line,
        `stopping`: the client had asked to stop the turn."""
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str):
            return self._parser.unparsed("unknown-type", update)
        parser = self._parser
        parser.texts.flush()
        bodies = Bodies(parser)
        if _response_in(update) is None:  # else kept as it is until the result, which has the same bodies
            update = bodies.take(update)
        call = parser.calls.get(call_id)
        line_class = WITH_EVENTS
        if (call is None and not parser.calls.is_done(call_id)) or self._begins_another(call_id, update):
            call = self._open(call_id, update, synthetic=not opens)
        elif call is not None:
            line_class = self._update(call, update)
        elif update.get("status") not in _ENDED:
            return skip("late-update")
        if update.get("status") in _ENDED:
            return self._end(call_id, call, update, bodies, stopping)
        return line_class

    def add_content(self, chunk: dict[str, Any]) -> str:
        """v2: one more item of a call's content."""
        call_id = chunk.get("toolCallId")
        call = self._parser.calls.get(call_id) if isinstance(call_id, str) else None
        if call is None:
            return skip("late-update")
        use = _use_of(call)
        items = [Bodies(self._parser).take(chunk.get("content"))]
        self._terminals.embed(use, call.id, items)
        if (text := text_of(items)) is not None and call.status == "running":
            self._show(call, use.running or "", text)
            use.running = (use.running or "") + text
        else:
            use.content = [*use.content, *items]
        self._remember(call, use)
        return WITH_EVENTS

    def before_permission(self, tool_call: dict[str, Any]) -> str | None:
        """The call a permission is asked for, opened if it was never seen; gives its id.

        What a request says of a call whose input is known is left alone: OpenCode shows a diff there in place of the
        text, codex-acp another title.
        """
        call_id = tool_call.get("toolCallId")
        if not isinstance(call_id, str):
            return None
        parser = self._parser
        call = parser.calls.get(call_id)
        if call is not None:
            if not _use_of(call).has_input:
                self._update(call, {key: item for key, item in tool_call.items() if key != "status"})
        elif not parser.calls.is_done(call_id):
            self._open(call_id, tool_call, synthetic=False, status="awaiting-permission")
        return call_id

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        use = _use_of(call)
        terminal = self._terminals.of(use)
        return printed_so_far(use, terminal), _bodies_of(terminal)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _begins_another(self, call_id: str, update: dict[str, Any]) -> bool:
        """Whether a line begins a new call under the id of one that has ended, or that another session has."""
        calls = self._parser.calls
        if update.get("sessionUpdate") != "tool_call" or self._parser.replay:
            return False
        if calls.session_of(call_id) != self._parser.session:
            return True
        if not calls.is_done(call_id):
            return False
        name = raw_name(update, call_id)
        read = self._read_input(_said_in(update), name)
        return not calls.repeats(call_id, name, read.value, name=read.name)

    def _open(self, call_id: str, update: dict[str, Any], *, synthetic: bool, status: str | None = None) -> Call:
        use = ToolUse()
        self._learn(use, call_id, update, runs=False)
        # An update of a call never seen may tell nothing at all of its tool.
        is_told = not synthetic or stated_name(update) is not None or use.kind is not None
        name = raw_name(update, call_id) if is_told else UNKNOWN_TOOL
        read = self._read_input(use, name)
        call = self._parser.calls.open(
            call_id,
            name,
            read.value,
            raw=update,
            name=read.name if is_told else "Unknown",
            status=status or ("running" if update.get("status") in _RUNNING else "pending"),
            title=use.title,
            synthetic=synthetic,
        )
        self._note_todos(call, read.value)
        self._terminals.read_meta(use, call_id, update)
        self._remember(call, use)
        return call

    def _update(self, call: Call, update: dict[str, Any]) -> str:
        use = _use_of(call)
        knew, shown = bool(call.memory), use.running or ""
        runs = call.status == "running" or update.get("status") in _RUNNING
        carries = self._learn(use, call.id, update, runs=runs)
        name = stated_name(update) or (use.kind if call.raw_name == UNKNOWN_TOOL else None) or call.raw_name
        value: Any = msgspec.UNSET
        canonical = None
        # What was forgotten (open calls may remember only so much) cannot be merged with.
        if update.keys() & _INPUT_FIELDS and (knew or isinstance(update.get("rawInput"), dict)):
            read = self._read_input(use, name)
            value, canonical = read.value, read.name
            self._note_todos(call, value)
        changed = self._parser.calls.update(
            call,
            value,
            raw=update,
            raw_name=name,
            name=canonical,
            status="running" if update.get("status") in _RUNNING else None,
            title=use.title,
        )
        now = use.running or ""
        if now != shown and now.startswith(shown):
            self._show(call, shown, now[len(shown) :])
        carries = self._terminals.read_meta(use, call.id, update) or carries
        self._remember(call, use)
        if changed or carries:
            return WITH_EVENTS
        return skip("partial" if now != shown else "unchanged")

    def _learn(self, use: ToolUse, call_id: str, update: dict[str, Any], *, runs: bool) -> bool:
        """Merge an update into what is known; gives whether it holds something that only a later event will show.

        Text is what the call is about until it runs, and what it printed from then on; that of the last update is the
        result's.
        """
        _merge(use, update)
        content = update.get("content")
        if use.kind is None and use.raw_input is None and update.get("status") not in _ENDED:
            arguments = text_of(content) or ""
            if arguments.startswith("{"):  # Kimi streams the arguments as content, and has neither kind nor raw input
                use.raw_input = json_object(arguments) or None
                return use.raw_input is not None
        if isinstance(content, list) and content:
            self._terminals.embed(use, call_id, content)
            if diffs(content) or not (runs or update.get("status") in _ENDED):
                use.content = content
            elif update.get("status") not in _ENDED:
                use.running = text_of(content) or use.running
        response = _response_in(update)
        if response is None:
            return False
        use.response = response
        return True

    def _read_input(self, use: ToolUse, name: str) -> ReadInput:
        servers = (*self._parser.context.mcp_servers, *self._state.servers)
        return read_input(use, name, mcp_name(name, use.title or "", use.raw_input, servers))

    def _show(self, call: Call, before: str, more: str) -> None:
        """A preview of what the call shows while it runs."""
        chunk = Chunk(stream="output", text=more, offset=len(before))
        self._parser.emit_partial(ToolUpdate, call_id=call.id, name=call.name, chunk=chunk)

    def _end(self, call_id: str, call: Call | None, update: dict[str, Any], bodies: Bodies, stopping: bool) -> str:
        """The result; of a call that has ended before, perhaps one that takes the place of what we made up."""
        calls = self._parser.calls
        use = _use_of(call) if call is not None else ToolUse()
        terminal = self._terminals.of(use)
        use.response = bodies.take(use.response)
        answer = read_result(
            calls.name_of(call_id) or "",
            use,
            update,
            terminal,
            provider=self._parser.provider,
            stopping=stopping,
        )
        links = [one for block in blocks(update.get("content")) for one in linked(block)]
        line_class = calls.result(
            call_id,
            answer.value,
            raw=update,
            status=answer.status,
            error=answer.error,
            duration_ms=answer.duration_ms,
            attachments=[*(bodies.attachments or ()), *links] or None,
            display=answer.display,
            assistant_view="unknown" if answer.is_shown else None,
            is_async=answer.is_async,
            outputs=_bodies_of(terminal),
        )
        if not answer.is_async:
            self._terminals.release(use)
        return line_class

    def _note_todos(self, call: Call, value: Any) -> None:
        """A plan that repeats the list of this call is not shown again."""
        if call.name == "TodoWrite" and isinstance(value, dict) and isinstance(value.get("todos"), list):
            self._plans.note(value["todos"])

    def _remember(self, call: Call, use: ToolUse) -> None:
        self._parser.calls.remember(call, msgspec.to_builtins(use))


def _use_of(call: Call) -> ToolUse:
    return msgspec.convert(call.memory, ToolUse)


def _said_in(update: dict[str, Any]) -> ToolUse:
    """What one line alone says of a call's input."""
    use = ToolUse()
    _merge(use, update)
    if update.get("status") not in _ENDED and isinstance(update.get("content"), list):
        use.content = update["content"]
    return use


def _merge(use: ToolUse, update: dict[str, Any]) -> None:
    if isinstance(update.get("kind"), str):
        use.kind = update["kind"]
    if isinstance(update.get("title"), str):
        use.title = update["title"]
    if update.get("rawInput") or (use.raw_input is None and "rawInput" in update):
        use.raw_input = update["rawInput"]
    if isinstance(update.get("locations"), list) and update["locations"]:
        use.locations = update["locations"]


def _response_in(update: dict[str, Any]) -> Any:
    """claude-agent-acp: the tool's own result object."""
    return record(record(update.get("_meta")).get("claudeCode")).get("toolResponse")


def _bodies_of(terminal: Terminal | None) -> dict[str, OutputRef] | None:
    """Where the whole of a terminal's output lies, if the head is not all."""
    ref = terminal.printed.ref("text/plain") if terminal is not None else None
    return {"/output/stdout": ref} if ref is not None else None
