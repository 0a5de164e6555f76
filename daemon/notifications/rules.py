"""The rules of the configuration that say when to call a person, and how: `[[notify]]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from tooltap.daemon.sessions.listing import folder_of, project_of

Reason: TypeAlias = Literal["waiting", "done", "failed", "idle", "cost", "quota"]
Dollars: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]

PLACE = re.compile(r"\{(title|text|link|session|reason)\}")
"""What is replaced in the words of a command."""
_INTERPRETER = re.compile(
    r"(?:a|ba|c|da|k|mk|tc|z)?sh|fish|python[\d.]*|perl|ruby|node|deno|bun|php|lua|osascript|pwsh|powershell"
)
_RUNS = re.compile(r"-[A-Za-z]*[ceErp]|-[Cc]ommand|--eval|--print|--command")
"""The options after which an interpreter takes a script."""
_URL = re.compile(r"https?://[^/\s?#]+")


class CallRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to call a person."""

    on: Annotated[tuple[Reason, ...], msgspec.Meta(min_length=1)] = ("waiting",)
    after: Annotated[float, msgspec.Meta(ge=0)] = 5.0
    """Seconds for which a session must have waited, been done, or failed."""
    agents: tuple[str, ...] = ()
    """Only sessions of these agents; empty: of all."""
    projects: tuple[str, ...] = ()
    """Only sessions in these folders, or folders of these names; empty: in all."""

    silent: Annotated[float, msgspec.Meta(gt=0)] = 300.0
    """Seconds without an event after which a session that runs, but has no open call, is idle."""
    session_usd: Dollars | None = None
    """Cost of one session in dollars."""
    day_usd: Dollars | None = None
    """Cost of today in dollars, of all `agents` together."""
    quota_percent: Annotated[float, msgspec.Meta(gt=0, le=100)] = 90.0
    """Share of a window of an agent's quota."""

    def __post_init__(self) -> None:
        if ("cost" in self.on) != (self.session_usd is not None or self.day_usd is not None):
            raise ValueError("`cost` in `on` and `session_usd` or `day_usd` belong together")
        if self.projects and (self.day_usd is not None or "quota" in self.on):
            raise ValueError("a day and a quota are of all projects")

    def covers(self, reason: Reason, session: Mapping[str, Any]) -> bool:
        """`session`: as in a reply to `sessions`; without an agent for what is of several."""
        return (
            reason in self.on
            and (not self.agents or session.get("provider") in (None, *self.agents))
            and (not self.projects or folder_of(session) in self.projects or project_of(session) in self.projects)
        )

    def patience(self, reason: Reason) -> float:
        """Return for how many seconds it must have lasted."""
        return {"idle": self.silent, "cost": 0.0, "quota": 0.0}.get(reason, self.after)


class NotifyRule(CallRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to call a person, and how: by `command` or by `url`."""

    command: tuple[str, ...] = ()
    """The words of a command; `{title}`, `{text}`, `{link}`, `{session}` and `{reason}` are replaced in each."""
    url: str | None = None
    format: Literal["json", "ntfy", "slack"] = "json"
    """What the webhook understands."""
    secret: str | None = None
    """Key of the signature that is sent with the webhook, in `X-Tooltap-Signature`."""
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Seconds that one command or webhook may take."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.command) == (self.url is not None):
            raise ValueError("a rule has either `command` or `url`")
        if (found := _script_with_place(self.command)) is not None:
            raise ValueError(f"`{found}` would be run as a part of the script: pass it as a word after the script")
        if self.url is not None and not _is_url(self.url):
            raise ValueError(f"url looks like https://ntfy.sh/my-topic, not {self.url!r}")


def _script_with_place(command: Sequence[str]) -> str | None:
    """Return what is replaced within the script of an interpreter, as in `sh -c 'echo {title}'`, where a title from
    outside would be code; None if nothing is."""
    for at, word in enumerate(command):
        if _INTERPRETER.fullmatch(word.rpartition("/")[2]):
            for option, script in pairwise(command[at + 1 :]):
                if not option.startswith("-"):
                    break
                if _RUNS.fullmatch(option) and (found := PLACE.search(script)) is not None:
                    return found[0]
    return None


def _is_url(text: str) -> bool:
    try:
        return _URL.match(text) is not None and urlsplit(text).port != 0
    except ValueError:  # such as of a port that is no number
        return False
