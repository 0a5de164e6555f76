r"""Redacts raw lines for a repository: removes what is private, and keeps what a parser reads.

It removes secrets (`secrets.py`), home folders and the names in them, e-mail addresses, host names, vendors' prompts
and catalogues, and the ends of long strings. A line keeps its format: the same keys with values of the same types, JSON
inside a string is still JSON, base64 is still base64. Redacting twice changes nothing more.

Names of people and machines are learned in two passes. The first pass (`learn`) collects them where they are
unmistakable: in a home folder, in a shell prompt, in the output of `uname`. The second pass (`redact`) replaces them
wherever they are a word of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from tooltap.traces.recording.secrets import mask_secrets

REMOVED = "[removed]"
MAX_STRING = 3_000
"""Characters of the longest string that is retained whole …"""
RETAINED = 400
"""… and characters retained of a longer one."""
MAX_ENTRIES = 4
"""Entries retained of a catalogue."""
MAX_DESCRIPTION = 120

PROMPTS = {
    "base_instructions",
    "developer_instructions",
    "host_skills",
    "instructions",
    "system_prompt",
    "systemPrompt",
    "user_instructions",
}
"""Keys of prompt texts, at any place."""
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
"""Keys of lists of what an agent offers. A few entries are enough to show the shape."""
PROMPT_TYPES = {"additional_tools", "api-request", "api-request-blob", "api-request-shape", "attachment"}
"""Types of lines and items that contain prompts and requests."""
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
"""Keys whose value is the name of a person or machine -> the replacement."""


class RedactionRule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str


_NAME = r"[\w-]+(?:\.[\w-]+)*"
_OTHER = r"(?!(?:user|Shared|Public)(?![\w.-]))"
"""Lookahead that excludes the replacement itself, and folders shared by all users."""

TEXT_RULES = (
    RedactionRule(re.compile(rf"\b([A-Za-z]:(?:\\+|/)Users(?:\\+|/)){_OTHER}{_NAME}"), r"\1user"),
    RedactionRule(re.compile(rf"(?:(?<![\w.])/home|/Users)/{_OTHER}{_NAME}|/tmp/home-{_NAME}"), "/home/user"),
    # Claude Code names project folders after paths: ~/.claude/projects/-home-alice-src
    RedactionRule(re.compile(r"(?<![\w-])-(?:home|Users)-(?!user(?!\w))\w+"), "-home-user"),
    # `git@github.com:…` names no person
    RedactionRule(
        re.compile(r"(?<![\w.+-])(?!git@|user@example\.com)[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b(?!:)"),
        "user@example.com",
    ),
    RedactionRule(
        re.compile(r"(?<![\w.+-])(?!git@|user@host:)[A-Za-z_][\w-]{0,31}@[A-Za-z0-9][\w.-]{0,63}:(?=[~/])"),
        "user@host:",
    ),
    RedactionRule(
        re.compile(r"(?<=://)(?!host\.)[\w.-]{1,200}\.(?:corp|home|internal|intranet|lan|local)(?![\w.-])"),
        "host.internal",
    ),
)
LEARNED_FROM = (
    RedactionRule(re.compile(rf"(?:(?<![\w.])/home|/Users)/{_OTHER}({_NAME})"), "user"),
    RedactionRule(re.compile(rf"\b[A-Za-z]:(?:\\+|/)Users(?:\\+|/){_OTHER}({_NAME})"), "user"),
    RedactionRule(re.compile(r"(?<![\w.+-])(?!git@)([A-Za-z_][\w-]{0,31})(?=@[A-Za-z0-9][\w.-]{0,63}:[~/])"), "user"),
    RedactionRule(re.compile(r"(?<!git@)(?<=@)([A-Za-z0-9][\w.-]{0,63})(?=:[~/])"), "host"),
    RedactionRule(re.compile(r"\b(?:Linux|Darwin) ([A-Za-z][\w.-]{2,63}) \d+\.\d+"), "host"),
)
"""Patterns whose group 1 is certainly a name -> its replacement everywhere."""
SUSPECT = re.compile(r"@|://|home|Users|Linux |Darwin ")
"""Prefilter: matches in every text in which one of the rules above matches."""
SUSPECT_BYTES = re.compile(SUSPECT.pattern.encode())
MAX_NAMES = 1_000
TOO_COMMON = {"admin", "agent", "app", "build", "dev", "home", "host", "localhost", "node", "root", "runner", "test"}
"""Names that do not identify a person, and are common words in paths and code."""
MIN_NAME = 3

BASE64 = re.compile(r"(data:[^,\s]{0,200};base64,)?[A-Za-z0-9+/]{64,}={0,2}")


class Redactor:
    """Call `learn` with every line first, then `redact` with each."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Name -> its replacement."""
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
        if len(name) < MIN_NAME or name.lower() in TOO_COMMON or name == replacement:
            return
        if name in self._names or len(self._names) < MAX_NAMES:
            self._names[name] = min(replacement, self._names.get(name, replacement))

    def redact(self, line: bytes) -> bytes:
        """Return the redacted line; the same object if there is nothing to redact."""
        framing, value = _decoded(line)
        try:
            redacted = self._value(value, "")
            if redacted != value:
                line = framing + (_bytes_of(redacted) if isinstance(value, str) else _json(redacted))
        except (RecursionError, orjson.JSONEncodeError):  # too deeply nested for any parser, or to be written again
            line = _bytes_of(self._text(_text_of(line)))
        return mask_secrets(line)

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            return self._string(value, key)
        if isinstance(value, list):
            retained = value[:MAX_ENTRIES] if key in CATALOGUES else value
            return [_emptied(item) if key in PROMPTS else self._value(item, key) for item in retained]
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
        if key in PROMPTS or (key == "description" and len(text) > MAX_DESCRIPTION):
            return REMOVED
        if key in NAME_KEYS:
            return NAME_KEYS[key]
        if text.startswith(("{", "[")) and isinstance(inner := _loads(text), dict | list):
            redacted = self._value(inner, key)
            return text if redacted == inner else _json(redacted).decode()
        if len(text) > MAX_STRING:
            if BASE64.fullmatch(text):
                return text[: text.find(",") + 1 + RETAINED]
            text = f"{text[:RETAINED]}[{len(text) - RETAINED} characters removed]"
        return self._text(text)

    def _text(self, text: str) -> str:
        if SUSPECT.search(text):
            for pattern, replacement in TEXT_RULES:
                text = pattern.sub(replacement, text)
        if self._words is not None and not text.isidentifier():  # a single identifier is probably a word of the format
            text = self._words.sub(lambda match: self._names[match.group()], text)
        return text


def _decoded(line: bytes) -> tuple[bytes, Any]:
    """Return the prefix of the line and its JSON value; for a line that is not JSON, the line as a string."""
    framing = b"data: " if line.startswith(b"data: ") else b""  # a server-sent event
    value = _loads(line[len(framing) :])
    if value is None or isinstance(value, str):
        return b"", _text_of(line)
    return framing, value


def _text_of(line: bytes) -> str:
    return line.decode(errors="surrogateescape")


def _bytes_of(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


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
    """Reduce a value to its shape: strings are removed except types, and lists are cut to a few entries."""
    if isinstance(value, str):
        return value if key == "type" else REMOVED
    if isinstance(value, list):
        return [_emptied(item, key) for item in value[:MAX_ENTRIES]]
    if isinstance(value, dict):
        return {name: _emptied(item, name) for name, item in value.items()}
    return value
