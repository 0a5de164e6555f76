"""What fixtures are kept by: the key of an event, and the allowlist of keys.

A key is `protocol/provider/kind`, with the tool behind it for what has one: `acp/gemini/tool-call/run_shell_command`.
The tool is named as the wire names it, so that a key says what a provider sends, whatever canonical name the normalizer
gives it today. Characters that would not survive in a key or a file name are percent-encoded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tooltap.protocol.events import AnyEvent

__all__ = ["ALLOWLIST", "Allowlist", "AllowlistError", "RawNames", "base_key"]

ALLOWLIST = "allowlist.txt"
KINDS = frozenset(str(kind.__struct_config__.tag) for kind in AnyEvent.__args__)
OF_TOOLS = frozenset({"tool-call", "tool-update", "tool-result", "permission-request"})
"""Kinds with a tool in their key."""


class AllowlistError(Exception):
    """The allowlist cannot be used; the message says file, line and why."""


class RawNames:
    """Gives events of one stream their keys, in order: some name their tool only by the call they belong to."""

    def __init__(self) -> None:
        self._of_calls: dict[str, str] = {}

    def key(self, event: dict[str, Any]) -> str:
        """Of an event as clients get it."""
        parts = [event["protocol"], event["provider"], event["kind"]]
        if event["kind"] in OF_TOOLS and (name := self._name(event)):
            parts.append(name)
        return "/".join(_quoted(part) for part in parts)

    def _name(self, event: dict[str, Any]) -> str | None:
        said = (event.get("input") or event.get("output") or {}).get("_happy", {}).get("rawToolName")
        call_id = event.get("callId")
        if said is not None and call_id is not None:
            self._of_calls.setdefault(call_id, said)
        return said or self._of_calls.get(call_id) or event.get("name")


def base_key(key: str) -> str:
    """The key without its tool."""
    return "/".join(key.split("/")[:3])


def _quoted(part: str) -> str:
    return re.sub(r"^\.", "%2E", quote(part, safe=":+@~"))


class Allowlist(NamedTuple):
    path: Path
    text: str
    lines: dict[str, int]
    """Key -> line of the file."""

    def chosen(self, key: str) -> str | None:
        """What the event's examples are filed under: its key, else its key without the tool; None: not wanted."""
        return next((one for one in (key, base_key(key)) if one in self.lines), None)

    @classmethod
    def read(cls, path: Path) -> Allowlist:
        """One key a line; blank lines and those that begin with `#` say nothing. Raises `AllowlistError`."""
        try:
            text = path.read_text()
        except OSError as error:
            raise AllowlistError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise AllowlistError(f"{path}: not UTF-8 text") from None
        lines: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            key = re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip()
            if not key:
                continue
            parts = key.split("/")
            if len(parts) not in (3, 4) or not all(parts) or re.search(r"\s", key):
                raise AllowlistError(f"{path}:{number}: {key!r} is no key such as protocol/provider/kind/tool")
            if parts[2] not in KINDS:
                raise AllowlistError(
                    f"{path}:{number}: there is no kind {parts[2]!r}; kinds are {', '.join(sorted(KINDS))}"
                )
            if key in lines:
                raise AllowlistError(f"{path}:{number}: {key} is in line {lines[key]} already")
            lines[key] = number
        if not lines:
            raise AllowlistError(f"{path}: names no key")
        return cls(path, text, lines)
