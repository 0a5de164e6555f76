"""What fixtures are kept by: the key of an event, and the allowlist of keys.

A key is `protocol/provider/kind`, with the tool behind it for what has one: `acp/gemini/tool-call/run_shell_command`.
The tool is named as the wire names it, so that a key says what a provider sends, whatever canonical name the normalizer
gives it today. Characters that would not survive in a key or a file name are percent-encoded.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tooltap.protocol.events import AnyEvent

__all__ = ["ALLOWLIST", "Allowlist", "AllowlistError", "RawNames", "base_key", "fault_of"]

ALLOWLIST = "allowlist.txt"
KINDS = frozenset(str(kind.__struct_config__.tag) for kind in AnyEvent.__args__)
KEY = re.compile(r"(?!\.)[^/\s]+/(?!\.)[^/\s]+/(?P<kind>[^/\s]+)(?:/[^/\s]+)?")
COMMENT = re.compile(r"(?:^|\s)#.*")
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
        return said or self._of_calls.get(str(call_id)) or event.get("name")


def base_key(key: str) -> str:
    """The key without its tool."""
    return "/".join(key.split("/")[:3])


def fault_of(key: str) -> str | None:
    """Why it is no key; None: it is one."""
    found = KEY.fullmatch(key)
    if found is None:
        return f"{key!r} is no key, which is protocol/provider/kind or protocol/provider/kind/tool"
    if found["kind"] not in KINDS:
        return f"there is no kind {found['kind']!r} of events, only {', '.join(sorted(KINDS))}"
    return None


@lru_cache
def _quoted(part: str) -> str:
    return re.sub(r"^\.", "%2E", quote(part, safe=":+@~"))


class Allowlist(NamedTuple):
    path: Path
    data: bytes
    """The file as it is."""
    lines: dict[str, int]
    """Key -> its line in the file."""

    def chosen(self, key: str) -> str | None:
        """What the event's examples are filed under: its key, else its key without the tool; None: not wanted."""
        return next((one for one in (key, base_key(key)) if one in self.lines), None)

    @classmethod
    def read(cls, path: Path) -> Allowlist:
        """One key a line; `#` begins a comment. Raises `AllowlistError`."""
        try:
            data = path.read_bytes()
            text = data.decode("utf-8-sig")
        except FileNotFoundError:
            raise AllowlistError(f"{path}: there is no such file; `tooltap fixtures keys TRACE` lists keys") from None
        except OSError as error:
            raise AllowlistError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise AllowlistError(f"{path}: not text in UTF-8") from None
        lines: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not (key := COMMENT.sub("", line).strip()):
                continue
            if (fault := fault_of(key)) is not None:
                raise AllowlistError(f"{path}:{number}: {fault}")
            if key in lines:
                raise AllowlistError(f"{path}:{number}: {key} is in line {lines[key]} already")
            lines[key] = number
        if not lines:
            raise AllowlistError(f"{path}: names no key")
        return cls(path, data, lines)
