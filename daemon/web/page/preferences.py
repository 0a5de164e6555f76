"""What a reader wants to see of cards: chosen in a form, kept in a cookie of the reader's browser.

The cookie is one small JSON object in base64, of what is not the default. A cookie that cannot be read, of another
version or of somebody else's making, is as good as none.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qs

import msgspec

from tooltap.daemon.web.html.look import Level
from tooltap.daemon.web.page.heads import Head

__all__ = [
    "COOKIE",
    "Form",
    "PreferenceError",
    "Preferences",
    "Tap",
    "from_cookie",
    "from_form",
    "to_cookie",
]

COOKIE = "tooltap_preferences"
MAX_COOKIE = 3_800
"""Browsers keep at least 4,096 bytes of a cookie, its name and attributes included."""
TRANSCRIPTS = frozenset({"claude-transcript", "codex-rollout", "gemini-chat"})
"""Dialects of the agents' own session files."""

Tap: TypeAlias = Literal["expand", "open"]
Theme: TypeAlias = Literal["auto", "light", "dark"]
ToolName: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PreferenceError(ValueError):
    """They cannot be kept; the message is one sentence for the user."""


class Preferences(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    level: Level = "summary"
    transcripts: Level = "summary"
    """Of what was read from the agents' own session files."""
    tools: dict[ToolName, Level] = {}
    """Of these tools, wherever they come from."""
    expanded: Level = "full"
    """Of a card that was expanded."""
    tools_expanded: dict[ToolName, Level] = {}
    tap: Tap = "expand"
    """What a tap on a card's header does: expand it where it is, or open the event."""
    debug: bool = False
    """Whether what the provider said, raw, is shown from the beginning."""
    theme: Theme = "auto"

    def level_of(self, head: Head) -> Level:
        """Of a card at first. What is said is always whole."""
        if head.kind == "message":
            return "full"
        default = self.transcripts if head.dialect in TRANSCRIPTS else self.level
        return default if head.name is None else self.tools.get(head.name, default)

    def expanded_of(self, head: Head) -> Level:
        return self.expanded if head.name is None else self.tools_expanded.get(head.name, self.expanded)


class Form(NamedTuple):
    preferences: Preferences
    back: str
    """The page from which it was sent."""


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
        raise PreferenceError("these are more tools than a cookie holds")
    return value


def from_form(body: bytes) -> Form:
    """What the form sent, which has three fields for each tool: `tool`, `tool_level` and `tool_expanded`, empty where
    nothing was chosen. Raises `PreferenceError`."""
    try:
        fields = parse_qs(body.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=1_000)
    except ValueError:
        raise PreferenceError("this is not the form of the preferences") from None
    tools = [name.strip() for name in fields.get("tool", ())]
    values: dict[str, Any] = {
        "tools": _chosen(tools, fields.get("tool_level", ())),
        "tools_expanded": _chosen(tools, fields.get("tool_expanded", ())),
        "debug": "debug" in fields,
        **{name: fields[name][-1] for name in ("level", "transcripts", "expanded", "tap", "theme") if name in fields},
    }
    try:
        return Form(msgspec.convert(values, Preferences), _own(fields.get("back", ["/"])[-1]))
    except msgspec.ValidationError as error:
        raise PreferenceError(f"this cannot be preferred: {str(error)[:1].lower()}{str(error)[1:]}") from None


def _own(address: str) -> str:
    """An address of this site's, and nothing that a browser takes for another's."""
    return address if re.fullmatch(r"/(?![/\\])[!-~]*", address) else "/"


def _chosen(tools: Sequence[str], levels: Sequence[str]) -> dict[str, str]:
    return {tool: level for tool, level in zip(tools, levels, strict=False) if tool and level}
