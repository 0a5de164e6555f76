"""What users see of results: the user's rules, which are the tables `[tools.NAME]` of the configuration, and applying
them before a result is journaled.

`"*"` applies to every tool, key by key, unless the tool's own table has the key. Without a rule, users see what the
model sees.

The view that a rule makes depends only on the rule and the result, and is journaled with the result. A line that a
killed daemon had not committed arrives again, and is then shown by the rules of that time; a committed line is not
looked at again. A command that makes a view is only noted here: it runs once the result is durable (`rewriter.py`).

Calls are remembered until they end, because a rule may show a call's input. The oldest are forgotten when there are too
many.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.views.select import Text, result_text, without_meta, written_text
from tooltap.normalizers.core.items import Limits, OutputChunk, Produced
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.registry import KNOWN_TOOLS
from tooltap.protocol.events import Display, OutputRef, ToolCall, ToolResult, ToolUpdate, decode, encode
from tooltap.protocol.filters import Filter

if TYPE_CHECKING:
    from tooltap.normalizers.stream.normalizer import Output

EVERY_TOOL = "*"
FIELDS = ("tool", "status", "preview", "bytes", "lines")
OWNERS = ("input.", "output.")
MCP = "mcp_"
"""The prefix of an MCP server's tools, in canonical names (`mcp__memory__search`) and in agents' own."""

_CANONICAL = frozenset(KNOWN_TOOLS)

Template: TypeAlias = tuple[tuple[str, str | None], ...]
"""`(text, field that follows it)`; the last field may be None."""


class ToolRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table. For a key that is absent, `"*"` applies."""

    silent: bool | None = None
    """Show the user nothing of a result. Results that did not complete are shown anyway."""
    ask: bool | None = None
    """Show the user the title only, and the result on request."""
    max_chars: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Show the user so many code points of the result's text; 0: all."""
    template: str | None = None
    """Shown instead of a result that completed: `Written {bytes} bytes`. Fields: `FIELDS`, and `input.KEY` and
    `output.KEY` for values of the call and the result. Empty: none."""
    rewrite: tuple[str, ...] | None = None
    """A local command that makes the view: see `rewriter.py`. Empty: none."""
    mime_type: str | None = None
    """MIME type of the view that the template or the command makes. Default: plain text."""


class Rewriting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of the commands that make views."""

    timeout: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Seconds that one command may take."""
    output_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1_048_576
    """Bytes that one command may print."""
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Commands that run at once."""


class Rule(NamedTuple):
    """The rule for one tool."""

    silent: bool
    ask: bool
    max_chars: int
    template: Template
    rewrite: tuple[str, ...]
    mime_type: str | None


class Rules:
    """The rules for all tools. False if there are none."""

    def __init__(self, tools: Mapping[str, ToolRule]) -> None:
        self._tools = tools
        self._rules: dict[str, Rule | None] = {}
        self.need_input = any(one.template or one.rewrite for one in tools.values())
        """Whether a view may depend on the call's input."""

    def __bool__(self) -> bool:
        return bool(self._tools)

    def of(self, name: str) -> Rule | None:
        """The rule for a tool, by its canonical name; None if its results are shown unchanged."""
        known = name if name in self._tools or name in _CANONICAL else EVERY_TOOL
        if known == EVERY_TOOL and name.startswith(MCP):
            known = MCP
        if known not in self._rules:  # bounded: only canonical names and those of the configuration
            self._rules[known] = self._make(known)
        return self._rules[known]

    def _make(self, name: str) -> Rule | None:
        own, every = (self._tools.get(key, ToolRule()) for key in (name, EVERY_TOOL))
        merged = msgspec.structs.replace(every, **_stated(own))
        # An unknown tool may be an MCP server's, so it is rewritten only if its own table says so.
        is_named = name in _CANONICAL or (own.rewrite is not None and name != EVERY_TOOL)
        rule = Rule(
            silent=bool(merged.silent),
            ask=bool(merged.ask),
            max_chars=merged.max_chars or 0,
            template=parse_template(merged.template or ""),
            rewrite=merged.rewrite or () if is_named and not name.startswith(MCP) else (),
            mime_type=merged.mime_type,
        )
        return rule if any(rule[:5]) else None


def _stated(rule: ToolRule) -> dict[str, Any]:
    return {key: value for key, value in msgspec.structs.asdict(rule).items() if value is not None}


def check_tool(name: str, rule: ToolRule) -> tuple[str | None, str] | None:
    """Check a table beyond the types of its values. Returns `(key, one sentence)` for a mistake, else None."""
    if name not in _CANONICAL and (called := canonical_name(name, {}, "")) != name:
        return None, f"{name!r} is not a canonical tool name; write {called!r}"
    if rule.rewrite and name.startswith(MCP):
        return "rewrite", "the results of an MCP server's tools cannot be rewritten"
    if rule.rewrite and not rule.rewrite[0].strip():
        return "rewrite", "the command is empty; write the command and its arguments"
    try:
        parse_template(rule.template or "")
    except ValueError as error:
        return "template", str(error)
    return None


def parse_template(text: str) -> Template:
    """Raises `ValueError` with one sentence."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{text!r} cannot be read: {error}") from None
    for _, field, spec, conversion in parts:
        if field is not None and (spec or conversion or not _is_field(field)):
            known = ", ".join(f"{{{one}}}" for one in (*FIELDS, "input.KEY", "output.KEY"))
            asked = field + f"!{conversion}" * bool(conversion) + f":{spec}" * bool(spec)
            raise ValueError(f"there is no field {{{asked}}}; there are {known}")
    return tuple((literal, field) for literal, field, _, _ in parts)


def _is_field(field: str) -> bool:
    return field in FIELDS or any(field.startswith(owner) and field != owner for owner in OWNERS)


# -- applying the rules -----------------------------------------------------------------------------------------------

FIELD_CHARS = 200
"""Code points of one value in a template."""
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
    stdin: bytes
    text: str
    """Text of the assistant view."""
    result: ToolResult
    mime_type: str | None


class _Call(NamedTuple):
    """The remembered part of a call."""

    input: dict[str, Any]
    outputs: dict[str, OutputRef] | None
    preview: str | None
    size: int


UNKNOWN_CALL = _Call({}, None, None, 0)


class StreamViews:
    """`daemon`: the one that makes the views."""

    def __init__(self, policy: Policy, limits: Limits, daemon: str) -> None:
        self._daemon = daemon
        self._policy = policy
        self._limits = limits
        self._calls: dict[str, _Call] = {}
        self._call_bytes = 0
        self._rewrites: list[Rewrite] = []

    def apply(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """The outputs, with views in the results. A long view becomes an output body."""
        rules = self._policy.rules
        if not rules and not self._calls:
            return outputs
        applied: list[Output] = []
        for output in outputs:
            if not isinstance(output, Produced):
                applied.append(output)
            elif output.kind == "tool-result":
                applied += self._result(output, rules.of(str(output.tool)))
            else:
                applied.append(output)
                if rules.need_input and output.kind in CALLS:
                    self._remember(output)
        return applied

    @property
    def pending(self) -> dict[str, str]:
        """Ids of the results that are to be rewritten, for `StreamInfo.rewriting`."""
        return {one.result.id: self._daemon for one in self._rewrites}

    def take_rewrites(self) -> list[Rewrite]:
        """The rewrites noted since the last call; start them when the results are durable."""
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
        changed = msgspec.structs.replace(event, ask=True) if rule.ask else event
        if rule.silent and event.status == "completed":
            changed = msgspec.structs.replace(changed, silent=True)
            return [Produced.of(changed)]
        text = result_text(event.output, event.outputs)
        if rule.rewrite and event.status in RAN and not event.synthetic and not event.replay:
            self._rewrites.append(rewrite_of(rule, event, call.input))
        if (view := _view(rule, event, call, text)) is not None:
            return with_display(changed, view, self._limits)
        return [output] if changed is event else [Produced.of(changed)]


def view_id(result_id: str) -> str:
    """Id of the event that carries the view a command made of a result. No line produces it, so the id derives from the
    result's."""
    place, _, index = result_id.rpartition(":")
    return f"{place}d:{index}"


def with_display(event: ToolResult | ToolUpdate, display: Display, limits: Limits) -> list[Output]:
    """The event with a view, whose text is complete. A text too long for the event becomes an output body."""
    text = (display.text or "").encode()
    cut = {pointer: ref for pointer, ref in (event.outputs or {}).items() if not pointer.startswith("/display/")}
    shown = msgspec.structs.replace(event, display=display, outputs=cut or None)
    body = encode(shown)
    if len(text) <= limits.string_bytes and len(body) <= limits.event_bytes:
        return [Produced.of(shown, body)]
    output_id = f"{event.id}:display"
    mime_type = display.mime_type or PLAIN
    reference = Display(origin=display.origin, output_id=output_id, mime_type=mime_type)
    shown = msgspec.structs.replace(shown, display=reference)
    return [OutputChunk(output_id, 0, text, mime_type), Produced.of(shown)]


def _view(rule: Rule, event: ToolResult, call: _Call, text: Text) -> Display | None:
    """The view that the rule makes; None if it equals what is shown anyway."""
    if rule.template and event.status == "completed":
        filled = _fill(rule.template, event, call, text)
        if filled is not None and filled != text.text:
            return Display(origin="rule", text=filled, mime_type=rule.mime_type)
    before = event.display or Display(origin="rule", text=text.text)
    if rule.max_chars and before.text is not None and len(before.text) > rule.max_chars:
        return Display(origin="rule", text=before.text[: rule.max_chars], mime_type=before.mime_type)
    return None


def _fill(template: Template, event: ToolResult, call: _Call, text: Text) -> str | None:
    """The filled template; None if a field is unknown: half a sentence would be worse than the result."""
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


def rewrite_of(rule: Rule, event: ToolResult, asked: dict[str, Any]) -> Rewrite:
    """`asked`: input of the call."""
    text = result_text(event.output, event.outputs)
    request = {
        "tool": event.name,
        "input": asked,
        "output": without_meta(event.output),
        "text": text.text,
        "status": event.status,
        "provider": event.provider,
        "session": event.session,
        **({"outputs": event.outputs} if event.outputs else {}),
        **({"assistantView": "unknown"} if event.assistant_view == "unknown" else {}),
    }
    return Rewrite(rule.rewrite, msgspec.json.encode(request) + b"\n", text.text, event, rule.mime_type)
