"""Terminals: where an ACP call's output is when it is not in the call itself.

Three ways, none of which repeats the output elsewhere: the client runs terminals for the agent (`terminal/*` requests),
an adapter prints into `_meta.terminal_*` of the call's updates, and in v2 the agent's terminals have updates of their
own. What a terminal printed belongs to the call whose content embeds it.
"""

from __future__ import annotations

import base64
from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.dialects.acp.content import terminal_ids
from tooltap.normalizers.dialects.acp.inputs import ToolUse
from tooltap.normalizers.dialects.acp.state import AcpState, Terminal, keep_newest
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Chunk, ToolUpdate

__all__ = ["Terminals"]

TERMINALS = 16
"""Each keeps the head of its output."""


class Terminals:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: AcpState = parser.state

    # -- for calls ----------------------------------------------------------------------------------------------

    def embed(self, use: ToolUse, call_id: str, content: Any) -> None:
        """Note the terminals that a call's content shows."""
        for terminal_id in terminal_ids(content):
            self._embed(use, call_id, terminal_id)

    def of(self, use: ToolUse) -> Terminal | None:
        """The terminal of a call, the newest if it has several."""
        known = [self._state.terminals[one] for one in use.terminals if one in self._state.terminals]
        return known[-1] if known else None

    def release(self, use: ToolUse) -> None:
        """The call has ended."""
        for terminal_id in use.terminals:
            self._state.terminals.pop(terminal_id, None)

    def read_meta(self, use: ToolUse, call_id: str, update: dict[str, Any]) -> bool:
        """What an adapter printed in an update's `_meta`; gives whether it printed or ended."""
        meta = record(update.get("_meta"))
        has_news = False
        for key in ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit"):
            entry = meta.get(key)
            if not isinstance(entry, dict):
                continue
            terminal = self._embed(use, call_id, string(entry.get("terminal_id")) or call_id)
            if data := string(entry.get("data")):
                self._print(terminal, data)
            _note_exit(terminal, entry.get("exit_code"), entry.get("signal"))
            has_news = has_news or key != "terminal_info"
        return has_news

    # -- requests to the client ---------------------------------------------------------------------------------

    def created(self, result: dict[str, Any]) -> str:
        """The client started a terminal."""
        if isinstance(result.get("terminalId"), str):
            self._terminal(result["terminalId"])
        return skip("client-terminal")

    def printed(self, terminal_id: Any, result: dict[str, Any]) -> str:
        """The client told what a terminal has printed so far, and perhaps how it ended."""
        if not isinstance(terminal_id, str):
            return skip("client-terminal")
        terminal = self._terminal(terminal_id)
        if isinstance(result.get("output"), str):
            self._replace(terminal, result["output"])
        ended = record(result.get("exitStatus")) or result
        _note_exit(terminal, ended.get("exitCode"), ended.get("signal"))
        return WITH_EVENTS

    # -- v2 -----------------------------------------------------------------------------------------------------

    def update(self, update: dict[str, Any]) -> str:
        """`terminal_update`: what is known of an agent's terminal, or `terminal_output_chunk`: more output."""
        if not isinstance(update.get("terminalId"), str):
            return self._parser.unparsed("unknown-type", update)
        terminal = self._terminal(update["terminalId"])
        if (more := _decoded(update.get("data"))) is not None:
            self._print(terminal, more)
        if (whole := _decoded(record(update.get("output")).get("data"))) is not None:
            self._replace(terminal, whole)
        ended = record(update.get("exitStatus"))
        _note_exit(terminal, ended.get("exitCode"), ended.get("signal"))
        return WITH_EVENTS

    # -- inner workings -----------------------------------------------------------------------------------------

    def _embed(self, use: ToolUse, call_id: str, terminal_id: str) -> Terminal:
        if terminal_id not in use.terminals:
            use.terminals = [*use.terminals, terminal_id]
        terminal = self._terminal(terminal_id)
        terminal.call_id = call_id
        return terminal

    def _terminal(self, terminal_id: str) -> Terminal:
        known = self._state.terminals.pop(terminal_id, None) or Terminal()
        self._state.terminals[terminal_id] = known
        keep_newest(self._state.terminals, TERMINALS)
        return known

    def _replace(self, terminal: Terminal, whole: str) -> None:
        """The whole output so far, in place of what was known; as a rule it begins with it."""
        known = terminal.printed
        if known.output_id is None and whole.startswith(known.head):
            self._print(terminal, whole[known.chars :])
        else:
            terminal.printed = TextBuffer()
            terminal.printed.append(whole, self._parser, "text/plain")

    def _print(self, terminal: Terminal, text: str) -> None:
        call = self._parser.calls.get(terminal.call_id) if terminal.call_id is not None else None
        if call is not None and text:
            chunk = Chunk(stream="output", text=text, offset=terminal.printed.chars)
            self._parser.emit_partial(ToolUpdate, call_id=call.id, name=call.name, chunk=chunk)
        terminal.printed.append(text, self._parser, "text/plain")


def _note_exit(terminal: Terminal, exit_code: Any, signal: Any) -> None:
    code = whole(exit_code)
    terminal.exit_code = terminal.exit_code if code is None else code
    terminal.signal = string(signal) or terminal.signal


def _decoded(data: Any) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace") if isinstance(data, str) else None
    except ValueError:
        return None
