"""What a user wants to see of each tool's results: the tables `[tools.NAME]` of the configuration.

`"*"` holds for every tool, key by key, as far as the tool's own table does not say otherwise. Divergence is off unless
somebody asks for it here. How the rules are applied is in `result_views.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.tool_names import CANONICAL_TOOLS, LATER_TOOLS

__all__ = ["EVERY_TOOL", "Rewriting", "Rule", "Rules", "ToolRule", "check_tool"]

EVERY_TOOL = "*"
FIELDS = ("tool", "status", "preview", "bytes", "lines")
OWNERS = ("input.", "output.")
MCP = "mcp_"
"""Begins the name of an MCP server's tool, as we call it (`mcp__memory__search`) and as agents do."""

_CANONICAL = frozenset((*CANONICAL_TOOLS, *LATER_TOOLS))

Template: TypeAlias = tuple[tuple[str, str | None], ...]
"""Text, and the field that follows it; None at the end."""


class ToolRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one table says; a key that is absent is left to `"*"`."""

    silent: bool | None = None
    """The user is shown nothing of a result. What did not complete is shown all the same."""
    ask: bool | None = None
    """The user is shown the title alone, and the result when asking for it."""
    max_chars: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The user is shown so many code points of the result's text; 0: all."""
    template: str | None = None
    """Shown in place of a result that completed: `Written {bytes} bytes`. Fields: `FIELDS`, and `input.KEY` and
    `output.KEY` for what the call and the result have. Empty: none."""
    rewrite: tuple[str, ...] | None = None
    """A local command that makes what is shown: see `rewriter.py`. Empty: none."""
    mime_type: str | None = None
    """Of what the template or the command makes, where that is not plain text."""


class Rewriting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of the commands that make views."""

    timeout: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Seconds one may take."""
    output_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1_048_576
    """Bytes one may answer."""
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 2
    """How many run at once."""
    waiting_bytes: Annotated[int, msgspec.Meta(ge=0)] = 16_777_216
    """Bytes of results that wait for their command; further ones are shown as they are."""


class Rule(NamedTuple):
    """What holds for one tool."""

    silent: bool
    ask: bool
    max_chars: int
    template: Template
    rewrite: tuple[str, ...]
    mime_type: str | None


class Rules:
    """Every tool's rule. `bool`: whether there is any at all."""

    def __init__(self, tools: Mapping[str, ToolRule]) -> None:
        self._tools = tools
        self._rules: dict[str, Rule | None] = {}
        self.need_input = any(one.template or one.rewrite for one in tools.values())
        """Whether what a call was asked for says something about its result's view."""

    def __bool__(self) -> bool:
        return bool(self._tools)

    def of(self, name: str) -> Rule | None:
        """Of a tool by its canonical name; None where its results are shown as they are."""
        known = name if name in self._tools or name in _CANONICAL else EVERY_TOOL
        if known == EVERY_TOOL and name.startswith(MCP):
            known = MCP
        if known not in self._rules:  # as many entries as there are names in the configuration and canonical ones
            self._rules[known] = self._make(known)
        return self._rules[known]

    def _make(self, name: str) -> Rule | None:
        own, every = (self._tools.get(key, ToolRule()) for key in (name, EVERY_TOOL))
        said = msgspec.structs.replace(every, **_said(own))
        # A tool that nobody knows may be an MCP server's: only by its name may it be rewritten.
        is_named = name in _CANONICAL or (own.rewrite is not None and name != EVERY_TOOL)
        rule = Rule(
            silent=bool(said.silent),
            ask=bool(said.ask),
            max_chars=said.max_chars or 0,
            template=parse_template(said.template or ""),
            rewrite=said.rewrite or () if is_named and not name.startswith(MCP) else (),
            mime_type=said.mime_type,
        )
        return rule if any(rule[:5]) else None


def _said(rule: ToolRule) -> dict[str, Any]:
    return {key: value for key, value in msgspec.structs.asdict(rule).items() if value is not None}


def check_tool(name: str, rule: ToolRule) -> tuple[str | None, str] | None:
    """What is wrong with a table beyond the types of its values: (key, one sentence); None: nothing."""
    if name not in _CANONICAL and (called := canonical_name(name, {}, "")) != name:
        return None, f"no result is of a tool {name!r}: its canonical name is {called!r}"
    if rule.rewrite and name.startswith(MCP):
        return "rewrite", "results of an MCP server's tools are not rewritten"
    if rule.rewrite and not rule.rewrite[0].strip():
        return "rewrite", "this is a command and its arguments, and the command is empty"
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
