"""Shows on a terminal what waits, and asks for an answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common.connection import request
from tooltap.cli.common.printing import say, say_text, short, styled, wants_colour, warn
from tooltap.daemon.formats import spent
from tooltap.daemon.sessions.listing import asked_text, folder_name

MAX_TEXT = 500
"""Code points of any line from outside."""
MAX_INPUT = 20_000
"""Code points that are shown of what would be done."""
_OUTCOMES = {"allow": "allowed", "reject": "denied"}
"""Beginning of an option's kind -> its outcome."""
_WORDS = {"allowed": "allow", "denied": "deny"}
"""Outcome -> the word before an option, whose name is the agent's."""
_ALONE = (
    {"name": "Allow", "kind": "allow_once"},
    {"name": "Deny", "kind": "reject_once"},
)
"""What can be chosen where the agent lists no options."""


def outcome_of(question: dict[str, Any], option: str) -> str | None:
    """Return the outcome that an option of a question means; None if it is not offered, or means neither."""
    kinds = (str(one.get("kind")) for one in question.get("options") or () if one.get("id") == option)
    return _outcome(next(kinds, ""))


def _outcome(kind: str) -> str | None:
    return next((outcome for begin, outcome in _OUTCOMES.items() if kind.startswith(begin)), None)


def ask_person(
    socket: Path | None, questions: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Show what waits, and ask for an answer. Return the question and the fields of the request `answer`; None if
    nothing can be answered, or nothing was."""
    if not questions:
        warn("no session waits for you")
        return None
    answerable = [one for one in questions if one.get("answerable")]
    for one in questions:
        if one not in answerable:
            warn(f"{_where(one)}: {short(one.get('whyNot') or 'it cannot be answered from here', MAX_TEXT)}")
    if not answerable:
        return None
    question = answerable[0]
    if len(answerable) > 1:
        for number, one in enumerate(answerable, 1):
            say(f"{number:>3}  {short(asked_text(one), MAX_TEXT)}  ({_where(one)})")
        question = answerable[_number("Which one", len(answerable)) - 1]
    _show(socket, question)
    if question.get("withheld"):
        warn(short(question["withheld"], MAX_TEXT))
    can_only_deny = question["type"] == "permission" or question.get("withheld")
    fields = _choice(question) if can_only_deny else _answers(question)
    return None if fields is None else (question, fields)


def _where(one: dict[str, Any]) -> str:
    since = one.get("since")
    age = None if since is None else spent(max(time.time_ns() // 1_000_000 - since, 0))
    about = (one["provider"], folder_name(str(one.get("project") or "")), one.get("title"), age)
    return " · ".join(short(part) for part in about if part)


def _show(socket: Path | None, question: dict[str, Any]) -> None:
    """Print who asks, and in full what would be done."""
    head = f"{_where(question)}: {question['type']} {short(question.get('name') or '')}".rstrip()
    say(styled(head, "bold") if wants_colour() else head)
    if question["type"] != "permission":
        return
    text, seq = _input(socket, question)
    say_text("".join(f"  │ {line}\n" for line in text[:MAX_INPUT].split("\n")))  # none can look like ours
    if len(text) > MAX_INPUT:
        warn(f"this is cut: `tooltap show {seq} --view raw` has all of it")


def _input(socket: Path | None, question: dict[str, Any]) -> tuple[str, int]:
    """Return what would be done, each argument of the call in full, and the number of the event that states it."""
    import orjson

    source = question["seq"]
    event = request(socket, "event", seq=source)["event"]
    given = event.get("input")
    if given is None and "callId" in question:
        calls = request(socket, "calls", session=question["session"])["calls"]
        found = (one["seq"] for one in calls if one["callId"] == question["callId"])
        if (seq := next(found, None)) is not None:
            given, source = request(socket, "event", seq=seq)["event"].get("input"), seq
    lines = []
    for key, value in (given or {}).items():
        if not key.startswith("_"):
            text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
            lines.append(f"{key}: {text}" if "\n" not in text else f"{key}:\n{text}")
    return "\n".join(lines) or str(event.get("title") or asked_text(question)), source


def _choice(question: dict[str, Any]) -> dict[str, Any] | None:
    options = [
        (outcome, one)
        for one in question.get("options") or (_ALONE[1:] if question.get("withheld") else _ALONE)
        if (outcome := _outcome(str(one.get("kind")))) is not None
    ]
    for number, (outcome, one) in enumerate(options, 1):
        remembers = f" ({short(one['remembers'], MAX_TEXT)})" if one.get("remembers") else ""
        say(f"{number:>3}  {_WORDS[outcome]}: {short(one.get('name') or one.get('id') or '')}{remembers}")
    number = _number("Answer, or 0 to leave it", len(options), least=0)
    if number == 0:
        return None
    outcome, chosen = options[number - 1]
    fields = {"outcome": outcome, "optionId": chosen.get("id")}
    if outcome == "denied":
        fields["message"] = click.prompt("Why (Enter: no reason)", default="", show_default=False) or None
    return fields


def _answers(question: dict[str, Any]) -> dict[str, Any] | None:
    """Ask each question. None if one is left out."""
    found: dict[str, Any] = {}
    for asked in question.get("questions") or ():
        say(short(asked.get("question") or asked.get("id") or "", MAX_TEXT))
        offered = [one if isinstance(one, dict) else {"label": one} for one in asked.get("options") or ()]
        for number, one in enumerate(offered, 1):
            about = f": {short(one['description'], MAX_TEXT)}" if one.get("description") else ""
            say(f"{number:>3}  {short(one.get('label') or '', MAX_TEXT)}{about}")
        several = any(asked.get(name) for name in ("multiSelect", "multiple", "multi_select"))
        words = "Numbers, with commas" if several else "Number" if offered else "Answer"
        typed = click.prompt(f"{words} (Enter: leave it)", default="", show_default=False).strip()
        if not typed:
            return None
        given = [_label(one.strip(), offered) for one in typed.split(",")] if several else [_label(typed, offered)]
        found[str(asked.get("id") or asked.get("question"))] = given if several else given[0]
    return {"outcome": "answered", "answers": found} if found else None


def _label(typed: str, offered: Sequence[dict[str, Any]]) -> str:
    """Return the label of a number; anything else is taken as it is."""
    number = int(typed) if typed.isdecimal() and len(typed) < 4 else 0
    return str(offered[number - 1].get("label")) if 0 < number <= len(offered) else typed


def _number(words: str, most: int, *, least: int = 1) -> int:
    number: int = click.prompt(words, type=click.IntRange(least, most))
    return number
