"""A reader's preferences: chosen in a form, stored in a cookie of the browser.

The cookie is a small JSON object in base64 with everything that is not the default. An invalid cookie, from another
version or forged, counts as none.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qs

import msgspec

from tooltap.daemon.show.blocks import Level
from tooltap.normalizers.catalog.registry import session_dialects
from tooltap.protocol.events import EventHead

COOKIE = "tooltap_preferences"
MAX_COOKIE = 3_800
"""Characters of the value. Browsers store at least 4,096 bytes per cookie, with its name and attributes."""

Tap: TypeAlias = Literal["expand", "open"]
Opens: TypeAlias = Literal["end", "unread", "waiting"]
Theme: TypeAlias = Literal["auto", "light", "dark"]
ToolName: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PreferenceError(ValueError):
    """The preferences are invalid or too long; the message is one sentence for the user."""


class Preferences(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    level: Level = "title"
    transcripts: Level = "title"
    """Level of events that come from the agents' own session files."""
    tools: dict[ToolName, Level] = {}
    """Level of the cards of these tools, in any stream."""
    expanded: Level = "full"
    """Level of an expanded card."""
    tools_expanded: dict[ToolName, Level] = {}
    tap: Tap = "expand"
    """Action of a tap on a card's header: expand the card in place, or open the event's page."""
    opens: Opens = "end"
    """Where a session opens: at its end, at the first event that this browser has not shown, or at the request that
    waits for the user, else at the end."""
    debug: bool = False
    """Whether the provider's raw object is unfolded at first."""
    theme: Theme = "auto"

    def level_of(self, head: EventHead) -> Level:
        """Return the level of a card at first. Messages and what waits for a person are always shown in
        full."""
        if head.kind in ("message", "permission-request"):
            return "full"
        default = self.transcripts if head.dialect in session_dialects() else self.level
        return default if head.name is None else self.tools.get(head.name, default)

    def showing(self, text: str) -> Preferences:
        """Return the preferences, changed so that cards are open enough to show a text that was searched."""
        if not text:
            return self
        levels = {name: "summary" for name in ("level", "transcripts") if getattr(self, name) == "title"}
        return msgspec.structs.replace(self, **levels)

    def expanded_of(self, head: EventHead) -> Level:
        return self.expanded if head.name is None else self.tools_expanded.get(head.name, self.expanded)


class Form(NamedTuple):
    preferences: Preferences
    back: str
    """The page to return to."""


_decoder = msgspec.json.Decoder(Preferences)


def from_cookie(value: str | None) -> Preferences:
    try:
        return _decoder.decode(base64.urlsafe_b64decode(value or ""))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        return Preferences()


def to_cookie(preferences: Preferences) -> str:
    """Raises `PreferenceError`."""
    value = base64.urlsafe_b64encode(msgspec.json.encode(preferences)).decode()
    if len(value) > MAX_COOKIE:
        raise PreferenceError("too many tools for one cookie; remove some")
    return value


def from_form(body: bytes) -> Form:
    """Parse the form. It has three fields per tool: `tool`, `tool_level` and `tool_expanded`, empty if nothing was
    chosen. Raises `PreferenceError`."""
    try:
        fields = parse_qs(body.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=1_000)
    except ValueError:
        raise PreferenceError("this is not the preferences form") from None
    tools = [name.strip() for name in fields.get("tool", ())]
    values: dict[str, Any] = {
        "tools": _chosen(tools, fields.get("tool_level", ())),
        "tools_expanded": _chosen(tools, fields.get("tool_expanded", ())),
        "debug": "debug" in fields,
        **{
            name: fields[name][-1]
            for name in ("level", "transcripts", "expanded", "tap", "opens", "theme")
            if name in fields
        },
    }
    try:
        return Form(msgspec.convert(values, Preferences), _local(fields.get("back", ["/"])[-1]))
    except msgspec.ValidationError as error:
        raise PreferenceError(f"invalid preference: {str(error)[:1].lower()}{str(error)[1:]}") from None


def _local(address: str) -> str:
    """Return the address if it is on this site, and no browser takes it for another site's; else `/`."""
    return address if re.fullmatch(r"/(?![/\\])[!-~]*", address) else "/"


def _chosen(tools: Sequence[str], levels: Sequence[str]) -> dict[str, str]:
    return {tool: level for tool, level in zip(tools, levels, strict=False) if tool and level}
