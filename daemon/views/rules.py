"""The user's rules for the results of each tool: the tables `[tools.NAME]` of the configuration.

`"*"` applies to every tool, key by key, unless the tool's own table has the key. Where several keys of a rule could
decide, `silent` comes before `ask`, `ask` before `rewrite`, and `template` before `max_chars`. Without a rule, users
see what the model sees. `results.py` applies the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from string import Formatter
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.registry import KNOWN_TOOLS
from tooltap.protocol.tools import TOOLS

EVERY_TOOL = "*"
FIELDS = ("tool", "status", "preview", "bytes", "lines")
OWNERS = ("input.", "output.")
MCP = "mcp_"
"""The prefix of an MCP server's tools, in canonical names (`mcp__memory__search`) and in agents' own."""
ALIKE = 0.8
"""Similarity of names, from 0 to 1, from which on one is taken for a misspelling of the other."""

_CANONICAL = frozenset(KNOWN_TOOLS)

Template: TypeAlias = tuple[tuple[str, str | None], ...]
"""`(text, field that follows it)`; the last field may be None."""


class ToolRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table. For a key that is absent, `"*"` applies."""

    silent: bool | None = None
    """Show the user nothing of a result. Results that did not complete are shown anyway."""
    visible: bool | None = None
    """False: as `silent`, and do not show the user the calls either."""
    ask: bool | None = None
    """Show the user the title only, and the result on request. It is not rewritten."""
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
    visible: bool


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
        """Return the rule for a tool, by its canonical name; None if its results are shown unchanged."""
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
            silent=bool(merged.silent) or merged.visible is False,
            ask=bool(merged.ask),
            max_chars=merged.max_chars or 0,
            template=parse_template(merged.template or ""),
            rewrite=merged.rewrite or () if is_named and not name.startswith(MCP) else (),
            mime_type=merged.mime_type,
            visible=merged.visible is not False,
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


def doubts(tools: Mapping[str, ToolRule]) -> Iterator[tuple[str, str]]:
    """What is valid in the tables, but can hardly be meant: `(name of the table, one sentence)`."""
    for name, rule in tools.items():
        if name not in _CANONICAL and (meant := get_close_matches(name, _CANONICAL, n=1, cutoff=ALIKE)):
            yield name, f"no canonical tool has this name; did you mean {meant[0]!r}?"
        if rule.template and (rule.silent or rule.visible is False):
            yield name, "`template` has no effect: nothing is shown of a result that completed"
        for field in _unknown_fields(name, rule.template or ""):
            yield name, f"{name} has no `{field}` of its own; a result without it is shown without `template`"
        if rule.rewrite and rule.ask:
            yield name, "`rewrite` has no effect: a result that is shown on request is not rewritten"


def _unknown_fields(tool: str, template: str) -> Iterator[str]:
    """The keys in a template that the payloads of a canonical tool do not have: perhaps an agent's own."""
    if tool not in TOOLS:
        return
    types = {"input": TOOLS[tool].input, "output": TOOLS[tool].result}
    for _, field in parse_template(template):
        owner, _, key = (field or "").partition(".")
        if key and key not in {one.encode_name for one in msgspec.structs.fields(types[owner])}:
            yield str(field)


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
