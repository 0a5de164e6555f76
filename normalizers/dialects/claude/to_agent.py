"""What a client of Claude Code's control protocol writes to it: permissions, answers, prompts, and interrupts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.answers import (
    CannotWriteError,
    Chosen,
    answer_text,
    for_agent,
    own_id,
    request_for_agent,
)
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.answers import ForAgent

ALLOW = {"id": "allow", "name": "Allow", "kind": "allow_once"}
DENY = {"id": "deny", "name": "Deny", "kind": "reject_once"}
_DENIED = "The user denied this."
_CANCELLED = "The user dismissed this."

LONGEST_RULE = 1_000
"""Maximum length of what an option remembers: what cannot be read as a whole is not offered."""
_PLACES = {
    "session": "Until the session ends",
    "localSettings": "In this project, for you (.claude/settings.local.json)",
    "projectSettings": "In this project, for everyone (.claude/settings.json)",
    "userSettings": "In all your projects (~/.claude/settings.json)",
}
"""Destination of a suggestion -> where and how long it holds."""
_MODES = {
    "acceptEdits": "edits of files are allowed",
    "auto": "a classifier decides what is allowed",
    "bypassPermissions": "everything is allowed",
    "default": "what may do harm is asked for",
    "dontAsk": "what no rule allows is denied",
    "plan": "nothing is changed",
}
"""Permission mode -> what it means."""


def _rules(suggestion: Line) -> str | None:
    if suggestion.get("behavior") != "allow":
        return None
    rules = suggestion.get("rules")
    names = [_rule(one) for one in rules] if isinstance(rules, list) else []
    return "allow " + ", ".join(map(str, names)) if names and all(names) else None


def _rule(rule: Any) -> str | None:
    tool, content = string(record(rule).get("toolName")), record(rule).get("ruleContent")
    return tool if content is None or tool is None else f"{tool}({content})"


def _mode(suggestion: Line) -> str | None:
    meaning = _MODES.get(str(suggestion.get("mode")))
    return None if meaning is None else f"permission mode {suggestion['mode']}: {meaning}"


def _directories(suggestion: Line) -> str | None:
    folders = suggestion.get("directories")
    return "work in " + ", ".join(map(str, folders)) if isinstance(folders, list) and folders else None


_MEANINGS: dict[str, Callable[[Line], str | None]] = {
    "addDirectories": _directories,
    "addRules": _rules,
    "setMode": _mode,
}
"""Type of a suggestion -> function that says what it allows; None if it allows nothing, or cannot be read."""


def _meaning(suggestion: Line) -> str | None:
    read, place = _MEANINGS.get(str(suggestion.get("type"))), _PLACES.get(str(suggestion.get("destination")))
    what = read(suggestion) if read is not None and place is not None else None
    return None if what is None or len(what) > LONGEST_RULE else f"{place}: {what}"


def suggestions_of(request: Line) -> dict[str, tuple[Line, str]]:
    """The suggestions of a permission request: id of the option -> (the suggestion, what it will allow). One of which
    tooltap cannot say that is none: the client may choose any of them, and none has to be chosen."""
    found: dict[str, tuple[Line, str]] = {}
    for suggestion in records(request.get("permission_suggestions")):
        if (meaning := _meaning(suggestion)) is not None:
            found[f"always-{len(found) + 1}"] = suggestion, meaning
    return found


def options_of(suggestions: dict[str, tuple[Line, str]]) -> list[dict[str, Any]]:
    """The options of a permission request; the wire has only the suggestions."""
    always = [
        {"id": option_id, "name": "Always allow", "kind": "allow_always", "remembers": meaning}
        for option_id, (_, meaning) in suggestions.items()
    ]
    return [ALLOW, *always, DENY]


def option_of(answer: Line, suggestions: dict[str, Any]) -> str | None:
    """The option that an answer chooses; None if a client has chosen several suggestions, or others. `suggestions`: id
    of the option -> the suggestion."""
    if answer.get("behavior") == "deny":
        return DENY["id"]
    chosen = answer.get("updatedPermissions")
    if not chosen:
        return ALLOW["id"]
    return next((option_id for option_id, one in suggestions.items() if chosen == [one]), None)


def word_answer(request_id: str, kept: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
    """Word an answer. `kept`: `input`, the input of the tool, and `suggestions`; empty if it was too long. An error
    cancels: Claude Code runs nothing, and tells its model. Raises `CannotWriteError`."""
    response: dict[str, Any] = {"subtype": "success", "request_id": request_id}
    if chosen.outcome == "cancelled":
        response.update(subtype="error", error=chosen.message or _CANCELLED)
    elif chosen.outcome == "denied":
        response["response"] = {"behavior": "deny", "message": chosen.message or _DENIED}
    else:
        response["response"] = _allowed(kept, chosen, option)
    closes = {"type": "control_cancel_request", "request_id": request_id}
    return for_agent(chosen.id, {"type": "control_response", "response": response}, closes)


def _allowed(kept: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> dict[str, Any]:
    """Allow a call, with its own input: some versions take an answer without it for an invalid one."""
    if not isinstance(given := kept.get("input"), dict):
        raise CannotWriteError("the tool's input is too long to be sent back: allow this where the agent runs")
    if chosen.outcome == "answered":
        given = {**given, "answers": {key: answer_text(one) for key, one in (chosen.answers or {}).items()}}
    answer: dict[str, Any] = {"behavior": "allow", "updatedInput": given}
    suggestion = kept["suggestions"].get(option["id"]) if option is not None else None
    return answer if suggestion is None else {**answer, "updatedPermissions": [suggestion]}


def word_prompt(session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    """Word a prompt. With its `uuid`, Claude Code says what becomes of it (`command_lifecycle`, seen in 2.1.332)."""
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    named = {"uuid": uuid} if (uuid := _uuid(id)) is not None else {}
    line = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session, **named}
    return for_agent(id, line)


_OWN_END = "-8000-746f6f6c7461"
"""End of the UUIDs of prompts that tooltap sends."""
_ID = re.compile("[0-9a-f]{16}")


def _uuid(sent: str) -> str | None:
    """Return the UUID of a prompt. `sent`: its id, which it contains; None for an id of another form."""
    return f"{sent[:8]}-{sent[8:12]}-{sent[12:]}{_OWN_END}" if _ID.fullmatch(sent) else None


def sent_with(uuid: Any) -> str | None:
    """Return the id of the prompt that tooltap has sent with a UUID; None if it is no UUID of tooltap's."""
    if not isinstance(uuid, str) or not uuid.endswith(_OWN_END):
        return None
    sent = uuid.removesuffix(_OWN_END).replace("-", "")
    return sent if _uuid(sent) == uuid else None


def word_interrupt(id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    request_id = own_id(id)
    request = {"type": "control_request", "request_id": request_id, "request": {"subtype": "interrupt"}}
    return request_for_agent(id, request, {"type": "control_response", "response": {"request_id": request_id}})
