r"""Takes out of raw lines what has no place in a repository, and leaves what a parser reads of them.

Out go secrets (`secrets.py`), home folders and the names in them, e-mail addresses, host names, vendors' prompt texts
and catalogues, and what nobody would review of long strings. A line stays a line of its format: the same keys with
values of the same types, text of JSON inside a string still JSON, base64 still base64. Redacting again changes nothing.

Names of people and machines are learned where they are unmistakable (a home folder, a shell's prompt, what `uname`
prints) and then replaced wherever they stand as a word of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from tooltap.traces.recording.secrets import mask_secrets

__all__ = ["Redactor"]

REMOVED = "[removed]"
LONG = 3_000
"""Characters of a string that may stay …"""
KEPT = 400
"""… and how many are kept of a longer one."""
MANY = 4
"""Entries kept of a catalogue."""
DESCRIPTION = 120

PROMPTS = {
    "base_instructions",
    "developer_instructions",
    "host_skills",
    "instructions",
    "system_prompt",
    "systemPrompt",
    "user_instructions",
}
"""Keys of prompt texts, whatever holds them."""
CATALOGUES = {
    "agents",
    "authMethods",
    "availableCommands",
    "availableModels",
    "configOptions",
    "models",
    "plugins",
    "skills",
    "slash_commands",
    "terminalCommands",
    "terminal_slash_commands",
}
"""Keys of lists of what an agent offers, of which a few entries show the shape."""
PROMPT_TYPES = {"additional_tools", "api-request", "api-request-blob", "api-request-shape", "attachment"}
"""Types of lines and items that hold prompts and requests."""
PROMPT_ROLES = {"developer", "system"}
NAME_KEYS = {
    "hostname": "host",
    "host_name": "host",
    "machineName": "host",
    "nodename": "host",
    "userName": "user",
    "username": "user",
    "user_name": "user",
}
"""Keys whose string is a name of a person or machine -> what takes its place."""


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str


_NAME = r"[\w-]+(?:\.[\w-]+)*"
_OTHER = r"(?!(?:user|Shared|Public)(?![\w.-]))"
"""A folder that is not our replacement, nor everybody's."""

TEXT_RULES = (
    Rule(re.compile(rf"\b([A-Za-z]:(?:\\+|/)Users(?:\\+|/)){_OTHER}{_NAME}"), r"\1user"),
    Rule(re.compile(rf"(?:(?<![\w.])/home|/Users)/{_OTHER}{_NAME}|/tmp/home-{_NAME}"), "/home/user"),
    # the folders Claude Code names after folders: ~/.claude/projects/-home-alice-src
    Rule(re.compile(r"(?<![\w-])-(?:home|Users)-(?!user(?!\w))\w+"), "-home-user"),
    # the user of `git@github.com:…` is nobody
    Rule(
        re.compile(r"(?<![\w.+-])(?!git@|user@example\.com)[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b(?!:)"),
        "user@example.com",
    ),
    Rule(
        re.compile(r"(?<![\w.+-])(?!git@|user@host:)[A-Za-z_][\w-]{0,31}@[A-Za-z0-9][\w.-]{0,63}:(?=[~/])"),
        "user@host:",
    ),
    Rule(
        re.compile(r"(?<=://)(?!host\.)[\w.-]{1,200}\.(?:corp|home|internal|intranet|lan|local)(?![\w.-])"),
        "host.internal",
    ),
)
LEARNED_FROM = (
    Rule(re.compile(rf"(?:(?<![\w.])/home|/Users)/{_OTHER}({_NAME})"), "user"),
    Rule(re.compile(rf"\b[A-Za-z]:(?:\\+|/)Users(?:\\+|/){_OTHER}({_NAME})"), "user"),
    Rule(re.compile(r"(?<![\w.+-])(?!git@)([A-Za-z_][\w-]{0,31})(?=@[A-Za-z0-9][\w.-]{0,63}:[~/])"), "user"),
    Rule(re.compile(r"(?<!git@)(?<=@)([A-Za-z0-9][\w.-]{0,63})(?=:[~/])"), "host"),
    Rule(re.compile(r"\b(?:Linux|Darwin) ([A-Za-z][\w.-]{2,63}) \d+\.\d+"), "host"),
)
"""Where group 1 can be nothing but a name -> what takes its place everywhere."""
SUSPECT = re.compile(r"@|://|home|Users|Linux |Darwin ")
"""Is where any of these rules matches."""
SUSPECT_BYTES = re.compile(SUSPECT.pattern.encode())
MOST_NAMES = 1_000
TOO_COMMON = {"admin", "agent", "app", "build", "dev", "home", "host", "localhost", "node", "root", "runner", "test"}
"""Names that say nothing of their owner, and that other things are called by."""
SHORTEST_NAME = 3

BASE64 = re.compile(r"(data:[^,\s]{0,200};base64,)?[A-Za-z0-9+/]{64,}={0,2}")


class Redactor:
    """Learns names from all lines there are, then redacts each: `learn` comes first."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Name -> what takes its place."""
        self._words: re.Pattern[str] | None = None

    def learn(self, line: bytes) -> None:
        if SUSPECT_BYTES.search(line) is None:
            return
        known = len(self._names)
        try:
            texts = list(_strings(_decoded(line)[1]))
        except RecursionError:
            texts = [_text_of(line)]
        for text in filter(SUSPECT.search, texts):
            for pattern, replacement in LEARNED_FROM:
                for name in pattern.findall(text):
                    self._learn_name(name, replacement)
        if len(self._names) > known:
            longest_first = sorted(self._names, key=lambda name: (-len(name), name))
            self._words = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")

    def _learn_name(self, name: str, replacement: str) -> None:
        if len(name) < SHORTEST_NAME or name.lower() in TOO_COMMON or name == replacement:
            return
        if name in self._names or len(self._names) < MOST_NAMES:
            self._names[name] = min(replacement, self._names.get(name, replacement))

    def redact(self, line: bytes) -> bytes:
        """The line without what is private; the same object where there is nothing."""
        framing, value = _decoded(line)
        try:
            redacted = self._value(value, "")
        except RecursionError:  # no parser reads that either
            framing, value = b"", _text_of(line)
            redacted = self._text(value)
        if redacted != value:
            line = framing + (redacted.encode(errors="surrogateescape") if isinstance(value, str) else _json(redacted))
        return mask_secrets(line)

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            return self._string(value, key)
        if isinstance(value, list):
            kept = value[:MANY] if key in CATALOGUES else value
            return [_emptied(item) if key in PROMPTS else self._value(item, key) for item in kept]
        if isinstance(value, dict):
            if key in PROMPTS:
                return _emptied(value)
            if _is_one_of(value.get("role"), PROMPT_ROLES) and "content" in value:
                value = {**value, "content": _emptied(value["content"])}
            if _is_one_of(value.get("type"), PROMPT_TYPES):
                value = {
                    name: _emptied(item) if isinstance(item, dict | list) else item for name, item in value.items()
                }
            return {self._text(name): self._value(item, name) for name, item in value.items()}
        return value

    def _string(self, text: str, key: str) -> str:
        if key in PROMPTS or (key == "description" and len(text) > DESCRIPTION):
            return REMOVED
        if key in NAME_KEYS:
            return NAME_KEYS[key]
        if text.startswith(("{", "[")) and isinstance(inner := _loads(text), dict | list):
            redacted = self._value(inner, key)
            return text if redacted == inner else _json(redacted).decode()
        if len(text) > LONG:
            if BASE64.fullmatch(text):
                return text[: text.find(",") + 1 + KEPT]
            text = f"{text[:KEPT]}[{len(text) - KEPT} characters removed]"
        return self._text(text)

    def _text(self, text: str) -> str:
        if SUSPECT.search(text):
            for pattern, replacement in TEXT_RULES:
                text = pattern.sub(replacement, text)
        if self._words is not None and not text.isidentifier():  # a word alone is rather one of the format's
            text = self._words.sub(lambda match: self._names[match.group()], text)
        return text


def _decoded(line: bytes) -> tuple[bytes, Any]:
    """(what stands before it, the line's JSON value); a line that is none is a string."""
    framing = b"data: " if line.startswith(b"data: ") else b""  # of server-sent events
    value = _loads(line[len(framing) :])
    if value is None or isinstance(value, str):
        return b"", _text_of(line)
    return framing, value


def _text_of(line: bytes) -> str:
    return line.decode(errors="surrogateescape")


def _loads(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _is_one_of(value: Any, names: set[str]) -> bool:
    return isinstance(value, str) and value in names


def _json(value: Any) -> bytes:
    return orjson.dumps(value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _strings(item)


def _emptied(value: Any, key: str = "") -> Any:
    """The shape of it: strings that say something are gone, and all but a few entries of lists."""
    if isinstance(value, str):
        return value if key == "type" else REMOVED
    if isinstance(value, list):
        return [_emptied(item, key) for item in value[:MANY]]
    if isinstance(value, dict):
        return {name: _emptied(item, name) for name, item in value.items()}
    return value
