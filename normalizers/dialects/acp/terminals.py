"""Terminals: the source of the output of ACP calls that do not state it themselves.

In all of the three ways, the output is not repeated elsewhere: the client runs terminals for the agent (`terminal/*`
requests), an adapter prints into `_meta.terminal_*` of the call's updates, and in v2 the agent's terminals have updates
of their own. The output of a terminal belongs to the call whose content embeds it.
"""

from __future__ import annotations

import base64
from typing import Any

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, TextBuffer, keep_newest
from tooltap.normalizers.dialects.acp.inputs import ToolUse
from tooltap.normalizers.dialects.acp.sessions import AcpState, PendingRequest, Terminal
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Chunk, ToolUpdate

TERMINALS = 16
"""Maximum number of terminals; each stores the head of its output."""
_SKIP = "client-terminal"
_TERMINAL_META = frozenset({"terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit"})


class Terminals:
    """Collects the output of terminals, and ties each to its call."""

    request = Lines("method")
    answer = Lines("method")
    update = Lines("sessionUpdate")

    def __init__(self, parser: Parser, state: AcpState) -> None:
        self._parser = parser
        self._terminals = state.terminals
        self._asked = state.requests

    # -- for calls ----------------------------------------------------------------------------------------------

    def embed(self, use: ToolUse, call_id: str, content: list[Any]) -> None:
        """Note the terminals in a call's content."""
        for item in content:
            if type(item) is dict and item.get("type") == "terminal" and isinstance(item.get("terminalId"), str):
                self._embed_terminal(use, call_id, item["terminalId"])

    def newest(self, use: ToolUse) -> Terminal | None:
        """The newest terminal of a call."""
        return next((self._terminals[one] for one in reversed(use.terminals) if one in self._terminals), None)

    def release(self, use: ToolUse) -> None:
        """Forget the terminals of a call that has ended."""
        for terminal_id in use.terminals:
            self._terminals.pop(terminal_id, None)

    def read_meta(self, use: ToolUse, call_id: str, meta: Any) -> bool:
        """Read an adapter's terminal data in `_meta`. Returns whether the terminal printed or ended."""
        if type(meta) is not dict or _TERMINAL_META.isdisjoint(meta):
            return False
        has_news = False
        for key in ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit"):
            entry = meta.get(key)
            if isinstance(entry, dict):
                terminal = self._embed_terminal(use, call_id, string(entry.get("terminal_id")) or call_id)
                if data := string(entry.get("data")):
                    self._print_terminal(terminal, data)
                _note_exit(terminal, entry.get("exit_code"), entry.get("signal"))
                has_news = has_news or key != "terminal_info"
        return has_news

    # -- requests to the client ---------------------------------------------------------------------------------

    @request("terminal/create", "terminal/output", "terminal/wait_for_exit")
    def _terminal_requested(self, params: Line, key: str) -> Skip:
        if key in self._asked:
            self._asked[key].params = {"terminal": params.get("terminalId")}
        return _SKIP

    @answer("terminal/create")
    def _terminal_created(self, result: Line, asked: PendingRequest, key: str) -> Skip:
        if isinstance(result.get("terminalId"), str):
            self._terminal(result["terminalId"])
        return _SKIP

    @answer("terminal/output", "terminal/wait_for_exit")
    def _terminal_printed(self, result: Line, asked: PendingRequest, key: str) -> Skip:
        """The output of a terminal so far, and its exit, if it has ended."""
        terminal_id = asked.params.get("terminal")
        if not isinstance(terminal_id, str):
            return _SKIP
        terminal = self._terminal(terminal_id)
        if isinstance(result.get("output"), str):
            self._replace_output(terminal, result["output"])
        ended = record(result.get("exitStatus")) or result
        _note_exit(terminal, ended.get("exitCode"), ended.get("signal"))
        return None

    # -- v2 -----------------------------------------------------------------------------------------------------

    @update("terminal_update", "terminal_output_chunk")
    def _terminal_updated(self, update: Line) -> Skip:
        """The state of an agent's terminal, or more output."""
        if not isinstance(update.get("terminalId"), str):
            return self._parser.unparsed("unknown-type", update)
        terminal = self._terminal(update["terminalId"])
        if (more := _decoded(update.get("data"))) is not None:
            self._print_terminal(terminal, more)
        if (output := _decoded(record(update.get("output")).get("data"))) is not None:
            self._replace_output(terminal, output)
        ended = record(update.get("exitStatus"))
        _note_exit(terminal, ended.get("exitCode"), ended.get("signal"))
        return None

    # -- internals ----------------------------------------------------------------------------------------------

    def _embed_terminal(self, use: ToolUse, call_id: str, terminal_id: str) -> Terminal:
        if terminal_id not in use.terminals:
            use.terminals = [*use.terminals, terminal_id]
        terminal = self._terminal(terminal_id)
        terminal.call_id = call_id
        return terminal

    def _terminal(self, terminal_id: str) -> Terminal:
        known = self._terminals.pop(terminal_id, None) or Terminal()
        self._terminals[terminal_id] = known
        keep_newest(self._terminals, TERMINALS)
        return known

    def _replace_output(self, terminal: Terminal, output: str) -> None:
        """Store the whole output so far, which usually extends the known output."""
        known = terminal.printed
        if known.output_id is None and output.startswith(known.head):
            self._print_terminal(terminal, output[known.chars :])
        else:
            terminal.printed = TextBuffer()
            terminal.printed.append(output, self._parser, "text/plain")

    def _print_terminal(self, terminal: Terminal, text: str) -> None:
        call = self._parser.calls.get(terminal.call_id) if terminal.call_id is not None else None
        if call is not None and text:
            emit_output(self._parser, call, text, terminal.printed.chars)
        terminal.printed.append(text, self._parser, "text/plain")


def emit_output(parser: Parser, call: OpenCall, text: str, offset: int) -> None:
    """Emit a partial event with new output of a running call. `offset`: position of `text` in the output, in code
    points."""
    if parser.partials:
        chunk = Chunk(stream="output", text=text, offset=offset)
        parser.emit_partial(ToolUpdate, call_id=call.id, name=call.name, chunk=chunk)


def _note_exit(terminal: Terminal, exit_code: Any, signal: Any) -> None:
    code = whole(exit_code)
    terminal.exit_code = terminal.exit_code if code is None else code
    terminal.signal = string(signal) or terminal.signal


def _decoded(data: Any) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace") if isinstance(data, str) else None
    except ValueError:
        return None
