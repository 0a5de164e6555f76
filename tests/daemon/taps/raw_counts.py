"""An independent count of the tokens in stored sessions: from the raw lines alone, without any code of the product.

Each function takes a home, and returns the whole prompts and the output, in tokens. Each request counts once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Tokens(NamedTuple):
    prompts: int = 0
    output: int = 0


def claude(home: Path) -> Tokens:
    """A message is written on several lines, whose figures grow, and may be in several files. One that lists its
    iterations is several requests; one about an error is none."""
    requests: dict[Any, Tokens] = {}
    for path in home.glob(".claude/projects/**/*.jsonl"):
        for line in objects(path):
            inner = line if line.get("type") != "progress" else _object(_object(line.get("data")).get("message"))
            message = _object(inner.get("message"))
            usage = _object(message.get("usage"))
            if inner.get("type") == "assistant" and usage and not inner.get("isApiErrorMessage"):
                parts = [one for one in usage.get("iterations") or () if "input_tokens" in _object(one)] or [usage]
                prompts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
                stated = _sum(Tokens(_counts(one, *prompts), _counts(one, "output_tokens")) for one in parts)
                key = (message["id"], inner.get("requestId")) if "id" in message else inner["uuid"]
                requests[key] = Tokens(*map(max, requests.get(key, Tokens()), stated))
    return _sum(requests.values())


def codex(home: Path) -> Tokens:
    """A request changes the total, or is the first answer to a prompt, with a total that began at 0. What a fork has
    copied of another thread are that thread's requests."""
    threads = {path: list(_own(objects(path))) for path in home.glob(".codex/*sessions/**/rollout-*.jsonl")}
    heads = {path: [_payload(line) for line in lines if _is(line, "session_meta")] for path, lines in threads.items()}
    stated = {path: list(_token_counts(lines)) for path, lines in threads.items()}
    by_id = {metas[0]["id"]: stated[path] for path, metas in heads.items() if metas}
    requests: list[Tokens] = []
    for path, counts in stated.items():
        copied = 0
        for meta in heads[path][1:]:
            theirs = by_id.get(meta["id"], [])
            while copied < min(len(counts), len(theirs)) and counts[copied] == theirs[copied]:
                copied += 1
        before = counts[copied - 1][0] if copied else None
        for total, last, answered in counts[copied:]:
            if total != before or (answered and last == total):
                requests.append(Tokens(_counts(last, "input_tokens"), _counts(last, "output_tokens")))
            before = total
    return _sum(requests)


def gemini(home: Path) -> Tokens:
    """A message may be written again, with other figures."""
    messages: dict[Any, Tokens] = {}
    for path in home.glob(".gemini/tmp/*/chats/**/*.json*"):
        session = None
        for value in objects(path):
            session = value.get("sessionId", session)
            for message in (value, *value.get("messages", ()), *_object(value.get("$set")).get("messages", ())):
                if tokens := _object(message.get("tokens")):
                    key = session, message["id"]
                    messages[key] = Tokens(_counts(tokens, "input", "tool"), _counts(tokens, "output", "thoughts"))
    return _sum(messages.values())


def pi(home: Path) -> Tokens:
    """The entries that a fork has copied are older than its header."""
    requests: list[Tokens] = []
    for path in home.glob(".pi/agent/sessions/**/*.jsonl"):
        header, *entries = objects(path)
        for entry in entries:
            usage = _object(_object(entry.get("message")).get("usage"))
            if usage and not ("parentSession" in header and entry["timestamp"] < header["timestamp"]):
                requests.append(Tokens(_counts(usage, "input", "cacheRead", "cacheWrite"), _counts(usage, "output")))
    return _sum(requests)


def qwen(home: Path) -> Tokens:
    """A line is one answer of the model."""
    answers: dict[str, Tokens] = {}
    for path in home.glob(".qwen/projects/**/*.jsonl"):
        for line in objects(path):
            if _is(line, "assistant") and (usage := _object(line.get("usageMetadata"))):
                answers[line["uuid"]] = Tokens(
                    _counts(usage, "promptTokenCount"), _counts(usage, "candidatesTokenCount")
                )
    return _sum(answers.values())


COUNTS = {"claude": claude, "codex": codex, "gemini": gemini, "pi": pi, "qwen": qwen}
"""Agent -> its count."""


def objects(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the objects on the lines of a file, also those behind another or a torn one on the same line; or its one
    document."""
    decoder = json.JSONDecoder()
    if path.suffix == ".json":
        yield json.loads(path.read_bytes())
        return
    for line in path.read_text(errors="replace").split("\n"):
        start = line.find("{")
        while start >= 0:
            try:
                value, end = decoder.raw_decode(line, start)
            except ValueError:
                end = start + 1
            else:
                yield value
            start = line.find("{", end)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is(line: Mapping[str, Any], kind: str) -> bool:
    return line.get("type") == kind


def _payload(line: Mapping[str, Any]) -> dict[str, Any]:
    return _object(line.get("payload"))


def _own(lines: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield the lines without those that the header calls another thread's."""
    first = 0
    for number, line in enumerate(lines):
        first = first or _payload(line).get("subagent_history_start_ordinal") or 0
        if number == 0 or line.get("ordinal", first) >= first:
            yield line


def _token_counts(lines: Iterable[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], dict[str, Any], bool]]:
    """Yield (total, last request, whether a prompt was answered since the count before)."""
    prompted = answered = False
    for line in lines:
        payload = _payload(line)
        prompted |= payload.get("type") == "user_message"
        answered |= prompted and _is(line, "response_item") and payload.get("role") not in ("user", "developer")
        if _is(line, "event_msg") and payload.get("type") == "token_count" and payload.get("info"):
            yield payload["info"]["total_token_usage"], _object(payload["info"].get("last_token_usage")), answered
            prompted = answered = False


def _counts(usage: Mapping[str, Any], *keys: str) -> int:
    return sum(usage.get(key) or 0 for key in keys)


def _sum(counts: Iterable[Tokens]) -> Tokens:
    counts = list(counts)
    return Tokens(sum(one.prompts for one in counts), sum(one.output for one in counts))
