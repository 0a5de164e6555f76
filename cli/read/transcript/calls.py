"""One call as one line: its tool, its telling argument, how it ended; and what it changed and gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tooltap.cli.common.columns import columns_of, fit, fit_end
from tooltap.cli.common.printing import Clean, joined, styled
from tooltap.daemon.formats import duration
from tooltap.daemon.show import changes, names
from tooltap.daemon.show.diff import Change, whole
from tooltap.daemon.system.sanitize import one_line
from tooltap.normalizers.tools.registry import family_of, preview
from tooltap.protocol.events import ToolCall, ToolResult
from tooltap.protocol.model_view import model_text

MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red")}
MAX_ARGUMENT = 400
MIN_ARGUMENT = 12
"""Columns reserved for the argument, however long the text after it is."""
TEXTS = ("stdout", "stderr", "content", "text", "message", "output", "result")
"""Keys of payloads whose texts are shown, if the stream does not say what the model saw."""


class Call(NamedTuple):
    """A call and, once it has ended, its result."""

    call: ToolCall
    argument: str
    added: int
    removed: int
    result: ToolResult | None = None

    @classmethod
    def of(cls, call: ToolCall, cwd: str | None) -> Call:
        changed = changes_of(call)
        argument = preview(call.name, call.input, cwd, MAX_ARGUMENT) or call.preview or call.title or ""
        added, removed = sum(one.added for one in changed), sum(one.removed for one in changed)
        return cls(call, one_line(argument, MAX_ARGUMENT), added, removed)

    @property
    def reads(self) -> bool:
        return family_of(self.call.name) == "read"

    @property
    def is_quiet(self) -> bool:
        """Whether it only read or searched, and nothing is to be said of it."""
        result = self.result
        return result is not None and result.status == "completed" and family_of(self.call.name) in names.FOLDED


def tool_name(name: str) -> str:
    return one_line(names.tool_name(name), 60)


def call_line(call: Call, columns: int, *, colour: bool) -> Clean:
    result = call.result
    glyph, style = ("▸", "yellow") if result is None else MARKS.get(result.status, ("■", "magenta"))
    name = fit(tool_name(call.call.name), max(columns // 3, 10))
    facts = " · ".join(_facts(call))
    room = columns - columns_of(name) - 3
    facts = fit(facts, max(room - MIN_ARGUMENT - 2, 8))
    left = room - (columns_of(facts) + 2 if facts else 0)
    argument = fit_end(call.argument, left) if family_of(call.call.name) == "read" else fit(call.argument, left)
    line = [_styled(glyph, style, colour), " ", _styled(name, "bold", colour)]
    if argument:
        line += [" ", argument]
    if facts:
        line += ["  ", _styled(facts, "dim", colour)]
    return joined(line)


def _facts(call: Call) -> Iterator[str]:
    if call.added or call.removed:
        yield f"+{call.added} −{call.removed}"
    result = call.result
    if result is None:
        return
    if result.async_:
        yield "continues in the background"
    elif result.status != "completed":
        yield result.status
    code = result.output.get("exit_code")
    if isinstance(code, int) and code:
        yield f"exit {code}"
    if result.duration_ms is not None:
        yield duration(result.duration_ms)


def _styled(text: str, style: str, colour: bool) -> str:
    return styled(text, style) if colour else text


def error_of(result: ToolResult) -> str:
    """What the agent says of a call that did not complete."""
    if result.status == "completed":
        return ""
    for key in ("errorMessage", "stderr", "message", "text", "stdout"):
        value = result.output.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def output_of(result: ToolResult) -> str:
    """What the model saw of it or, if that is not known, the texts of its payload."""
    if result.silent:
        return ""
    seen = model_text(msgspec.to_builtins(result), lambda _: None)
    if seen is not None:
        return seen
    texts = [result.output[key] for key in TEXTS if isinstance(result.output.get(key), str)]
    return "\n".join(text for text in texts if text)


def changes_of(call: ToolCall) -> list[Change]:
    """What it changes in files, as far as its input says so: of a file that is written, all lines."""
    if call.name == "Write":
        path, content = (call.input.get(key) for key in ("file_path", "content"))
        lines = whole(content if isinstance(content, str) else "", "+")
        return [Change.of(path if isinstance(path, str) else "", "", lines)]
    return changes.changes_of(call.name, call.input)
