"""Apply the user's rules to one stream's results, before they are journaled.

The view that a rule makes depends only on the rule and the result, and is journaled with the result. A line that a
killed daemon had not committed arrives again, and is then shown by the rules of that time; rules are not applied again
to a committed line. A command that makes a view is only recorded here: it runs once the result is durable
(`rewriter.py`).

Calls are remembered until they end, because a rule may show a call's input. If there are too many, the oldest are
forgotten.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.views.rules import Rule, Rules, Template
from tooltap.daemon.views.select import Text, result_text, without_meta, written_text
from tooltap.normalizers.core.items import Limits, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Output
from tooltap.protocol.events import Display, OutputRef, ToolCall, ToolResult, ToolUpdate, decode, encode
from tooltap.protocol.filters import Filter

FIELD_CHARS = 200
"""Maximum code points of one value in a template."""
PLAIN = "text/plain"
RAN = ("completed", "failed")
CALLS = ("tool-call", "tool-update")
"""Kinds of events that state a call's input."""


class Policy:
    """The current rules; they may change at any time."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules


class Rewrite(NamedTuple):
    """A result for which a command makes a view."""

    command: tuple[str, ...]
    input: dict[str, Any]
    """The input of the call."""
    result: ToolResult
    size: int
    """Bytes of the input and the result."""
    mime_type: str | None


class _Call(NamedTuple):
    """The remembered part of a call."""

    input: dict[str, Any]
    outputs: dict[str, OutputRef] | None
    preview: str | None
    size: int


UNKNOWN_CALL = _Call({}, None, None, 0)


class StreamViews:
    """Applies the rules to the results of one stream. `daemon`: id of the daemon that runs the commands."""

    def __init__(self, policy: Policy, limits: Limits, daemon: str) -> None:
        self._daemon = daemon
        self._policy = policy
        self._limits = limits
        self._calls: dict[str, _Call] = {}
        self._call_bytes = 0
        self._rewrites: list[Rewrite] = []

    def apply(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Return the outputs, with views in the results. A long view becomes an output body."""
        rules = self._policy.rules
        if not rules and not self._calls:
            return outputs
        applied: list[Output] = []
        for output in outputs:
            if not isinstance(output, Produced):
                applied.append(output)
            elif output.kind == "tool-result":
                applied += self._result(output, rules.of(str(output.tool)))
            elif output.kind in CALLS:
                rule = rules.of(str(output.tool))
                applied.append(output if rule is None or rule.visible else _hidden(output))
                if rules.need_input:
                    self._remember(output)
            else:
                applied.append(output)
        return applied

    @property
    def pending(self) -> dict[str, str]:
        """Id of each result to be rewritten -> this daemon, for `StreamInfo.rewriting`."""
        return {one.result.id: self._daemon for one in self._rewrites}

    def take_rewrites(self) -> list[Rewrite]:
        """Return the rewrites recorded since the last call; start them when the results are durable."""
        rewrites, self._rewrites = self._rewrites, []
        return rewrites

    def forget_rewrites(self, ids: Container[str]) -> None:
        """Forget the rewrites of these results, which are not stored."""
        self._rewrites = [one for one in self._rewrites if one.result.id not in ids]

    async def restore(self, journal: Journal, stream: str) -> None:
        """Remember the open calls of a stream that is resumed."""
        if not self._policy.rules.need_input:
            return
        left = {row["callId"]: row["seq"] for row in (await journal.open_calls(stream=stream))["calls"]}
        after = min(left.values(), default=journal.latest + 1) - 1
        wanted = Filter(stream=(stream,), kind=("tool-call", "tool-update"))
        while after < journal.latest:
            stored, after = await journal.read(after, wanted)
            for event in (decode(one.body) for one in stored):
                if isinstance(event, ToolCall | ToolUpdate) and event.call_id in left:
                    self._remember(Produced.of(event))

    # -- inner workings -----------------------------------------------------------------------------------------

    def _remember(self, output: Produced) -> None:
        event = output.fields
        before = self._calls.get(event.call_id)
        if output.kind == "tool-update" and (before is None or (event.input is None and event.preview is None)):
            return
        before = self._forget(event.call_id)
        known, outputs, size = before.input, before.outputs, before.size
        if event.input is not None:
            known, outputs = without_meta(event.input), output.event.outputs
            size = len(msgspec.msgpack.encode(known))
        self._calls[event.call_id] = _Call(known, outputs, event.preview or before.preview, size)
        self._call_bytes += size
        while self._call_bytes > self._limits.call_bytes or len(self._calls) > self._limits.open_calls:
            self._forget(next(iter(self._calls)))

    def _forget(self, call_id: str) -> _Call:
        call = self._calls.pop(call_id, UNKNOWN_CALL)
        self._call_bytes -= call.size
        return call

    def _result(self, output: Produced, rule: Rule | None) -> list[Output]:
        call_id = output.fields.call_id
        call = self._calls.get(call_id, UNKNOWN_CALL) if output.fields.async_ else self._forget(call_id)
        event = output.event if rule is not None else None
        if rule is None or not isinstance(event, ToolResult):
            return [output]
        if rule.silent and event.status == "completed":
            return [Produced.of(msgspec.structs.replace(event, silent=True, hidden=not rule.visible))]
        changed = msgspec.structs.replace(event, ask=True) if rule.ask else event
        text = result_text(event.output, event.outputs)
        if is_rewritten(rule) and event.status in RAN and not event.synthetic and not event.replay:
            self._rewrites.append(rewrite_of(rule, event, call.input))
        if (view := _view(rule, event, call, text)) is not None:
            return with_display(changed, view, self._limits)
        return [output] if changed is event else [Produced.of(changed)]


def _hidden(output: Produced) -> Produced:
    return Produced.of(msgspec.structs.replace(output.event, hidden=True))


def with_display(event: ToolResult | ToolUpdate, display: Display, limits: Limits) -> list[Output]:
    """Return the event with a view, whose text is complete. A text too long for the event becomes an output body."""
    text = (display.text or "").encode()
    cut = {pointer: ref for pointer, ref in (event.outputs or {}).items() if not pointer.startswith("/display/")}
    shown = msgspec.structs.replace(event, display=display, outputs=cut or None)
    body = encode(shown)
    if len(text) <= limits.string_bytes and len(body) <= limits.event_bytes:
        return [Produced.of(shown, body)]
    output_id = f"{event.id}:display"
    mime_type = display.mime_type or PLAIN
    reference = Display(origin=display.origin, output_id=output_id, mime_type=mime_type, cut=display.cut)
    shown = msgspec.structs.replace(shown, display=reference)
    return [OutputChunk(output_id, 0, text, mime_type), Produced.of(shown)]


def _view(rule: Rule, event: ToolResult, call: _Call, text: Text) -> Display | None:
    """Return the view that the rule makes; None if it equals what is shown anyway."""
    if rule.template and event.status == "completed":
        filled = _fill(rule.template, event, call, text)
        if filled is not None and filled != text.text:
            return Display(origin="rule", text=filled, mime_type=rule.mime_type)
    before = event.display or Display(origin="rule", text=text.text)
    if rule.max_chars and before.text is not None and len(before.text) > rule.max_chars:
        shown = before.text[: rule.max_chars]
        whole = text.bytes if event.display is None else _display_bytes(before.text, event.outputs)
        return Display(origin="rule", text=shown, mime_type=before.mime_type, cut=whole - len(shown.encode()))
    return None


def _display_bytes(text: str, outputs: dict[str, OutputRef] | None) -> int:
    """The bytes of a display's whole text, of which the event may hold only the beginning."""
    stored = (outputs or {}).get("/display/text")
    return len(text.encode()) if stored is None else stored.bytes


def _fill(template: Template, event: ToolResult, call: _Call, text: Text) -> str | None:
    """Return the filled template; None if a field is unknown: the result is better than half a sentence."""
    parts: list[str] = []
    for literal, field in template:
        parts.append(literal)
        if field is not None:
            value = _value(field, event, call, text)
            if not isinstance(value, str | int | float):
                return None
            parts.append(str(value)[:FIELD_CHARS])
    return "".join(parts)


def _value(field: str, event: ToolResult, call: _Call, text: Text) -> Any:
    owner, dot, key = field.partition(".")
    if dot:
        return (call.input if owner == "input" else event.output).get(key)
    measured = (written_text(call.input, call.outputs) if event.name == "Write" else None) or text
    values = {
        "tool": event.name,
        "status": event.status,
        "preview": call.preview,
        "bytes": measured.bytes,
        "lines": measured.lines,
    }
    return values[field]


def is_rewritten(rule: Rule) -> bool:
    """Return whether a rule lets a command make the view of a result that is shown."""
    return bool(rule.rewrite) and not rule.silent and not rule.ask


def rewrite_of(rule: Rule, event: ToolResult, asked: dict[str, Any]) -> Rewrite:
    """Return the rewrite of a result. `asked`: input of the call."""
    size = len(msgspec.json.encode(asked)) + len(encode(event))
    return Rewrite(rule.rewrite, asked, event, size, rule.mime_type)
