"""The `hooks` dialect: what agents ask and tell through the hooks that run `tooltap hook`.

    {"type": "hook/asked", "id", "agent", "event", "waits", "input": {…}}    the agent asks; `input`: what the hook got
    {"type": "hook/answered", "id", "output": {…}}                           what the hook printed for the agent
    {"type": "hook/settled", "id", "outcome"}                                the question was answered elsewhere

A stream has one question. `waits`: the hook waits for an answer; else it has only told of the question. The input is
that of the hooks of Claude Code, which Codex and Qwen Code have taken over; Copilot writes its keys in camel case, and
Gemini has notifications alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from tooltap.normalizers.core.answers import CannotWriteError, Chosen
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State, put
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.tools.registry import tool_input
from tooltap.normalizers.wire.values import first_string, record, records, string, strings
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import SessionEvent

__all__ = ["Hooks"]

QUESTIONS, PLAN = "AskUserQuestion", "ExitPlanMode"
"""Tools of Claude Code whose input is sent back with the answer."""
QUESTIONS_OPEN = 64
OUTCOMES = ("allowed", "denied", "cancelled", "answered")
ALLOW, ALWAYS, DENY = "allow", "always", "deny"
_GEMINI_TOOLS = {"exec": "run_shell_command", "edit": "replace", "info": "web_fetch"}
"""Type of the details of Gemini's notification -> a tool that has such details."""


class Asked(msgspec.Struct):
    """What is needed to answer the question."""

    agent: str
    event: str
    suggestions: list[dict[str, Any]] = []
    """What the agent suggests to allow from now on."""
    input: dict[str, Any] | None = None
    """The tool's input, if it is sent back."""


class HooksState(State, kw_only=True):
    asked: dict[str, Asked] = msgspec.field(default_factory=dict)
    """Id of an open question -> what is needed to answer it."""


class Hooks(Parser):
    """The `hooks` dialect."""

    dialect = "hooks"
    protocol = default_provider = "tooltap"
    SKIPS = frozenset({"repeated", "no-question"})
    state_type = HooksState
    line = Lines("type")

    @line("hook/asked", id=str, agent=str, event=str, input=dict)
    def _asked(self, value: Line) -> Skip:
        question, given = value["id"], value["input"]
        if question in self.state.asked:
            return "repeated"
        if (session := first_string(given, "session_id", "sessionId")) is not None:
            self.set_session(session)
        if (cwd := string(given.get("cwd"))) is not None and cwd != self.state.cwd:
            self.state.cwd = cwd
            self.emit(SessionEvent, state="updated", cwd=cwd)
        self.agent = string(given.get("agent_id")) or self.agent
        raw_name, payload = _call(given)
        name = None if raw_name is None else canonical_name(raw_name, payload, question)
        suggestions = records(given.get("permission_suggestions"))
        asked = Asked(value["agent"], value["event"], suggestions if value.get("waits") is True else [])
        questions = records(payload.get("questions")) if raw_name == QUESTIONS else None
        if raw_name in (QUESTIONS, PLAN):
            asked.input = payload
        put(self.state.asked, question, asked, QUESTIONS_OPEN)
        self.permissions.ask(
            question,
            name=name,
            type="permission" if questions is None else "question",
            title=first_string(payload, "description") or first_string(given, "message"),
            input=tool_input(name, payload, raw_name) if name and raw_name and questions is None else None,
            options=_options(asked) if questions is None and value.get("waits") is True else None,
            questions=None if questions is None else [{**one, "freeText": True} for one in questions],
        )
        return None

    @line("hook/answered", id=str, output=dict)
    def _answered(self, value: Line) -> Skip:
        question = value["id"]
        if (asked := self.state.asked.pop(question, None)) is None:
            return "no-question"
        decision = _decision(value["output"])
        updated = record(decision.get("updatedInput"))
        answers = record(updated.get("answers")) if asked.input is not None and "questions" in asked.input else None
        if decision.get("behavior") != "allow":
            outcome = "cancelled" if decision.get("interrupt") is True else "denied"
            self.permissions.answer(question, outcome, by="user", message=string(decision.get("message")))
        elif answers:
            self.permissions.answer(question, "answered", by="user", answers=answers)
        else:
            option = ALWAYS if "updatedPermissions" in decision else ALLOW
            self.permissions.answer(question, "allowed", by="user", option_id=option)
        return None

    @line("hook/settled", id=str, outcome=str)
    def _settled(self, value: Line) -> Skip:
        if value["outcome"] not in OUTCOMES:
            return self.unparsed("unknown-type", value)
        if self.state.asked.pop(value["id"], None) is None:
            return "no-question"
        self.permissions.answer(value["id"], value["outcome"], by="user")
        return None

    # -- answers --------------------------------------------------------------------------------------------------

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        asked: Asked | None = self.state.asked.get(str(request.get("permissionId")))
        if asked is None:
            raise CannotWriteError("the question is over")
        decision: dict[str, Any] = {"behavior": "allow" if chosen.outcome in ("allowed", "answered") else "deny"}
        if decision["behavior"] == "deny":
            if chosen.message:
                decision["message"] = chosen.message
            if chosen.outcome == "cancelled":
                if asked.agent != "claude":
                    raise CannotWriteError(f"a hook of {asked.agent} can only allow or deny")
                decision["interrupt"] = True
        elif asked.input is not None:
            answers = {key: _joined(one) for key, one in (chosen.answers or {}).items()}
            decision["updatedInput"] = {**asked.input, "answers": answers} if answers else asked.input
        if option is not None and option["id"] == ALWAYS:
            decision["updatedPermissions"] = asked.suggestions
        # Copilot reads the decision alone.
        specific = {"hookSpecificOutput": {"hookEventName": asked.event, "decision": decision}}
        return ForAgent(
            line=orjson.dumps(decision if asked.agent == "copilot" else specific).decode(),
            answers=f"hook:{request['permissionId']}",
            id=chosen.id,
        )


def _call(given: Line) -> tuple[str | None, dict[str, Any]]:
    """(name, input) of the call for which a hook asks."""
    if (name := first_string(given, "tool_name", "toolName")) is not None:
        found = next((given[key] for key in ("tool_input", "toolInput", "toolArgs") if key in given), None)
        return name, record(decode_json(found) if isinstance(found, str) else found)
    details = record(given.get("details"))  # of Gemini
    kind = string(details.get("type"))
    if kind == "mcp":
        return f"mcp__{details.get('serverName')}__{details.get('toolName')}", {}
    keys = {"command": "command", "filePath": "file_path", "fileDiff": "diff", "prompt": "prompt"}
    return _GEMINI_TOOLS.get(str(kind)), {new: details[old] for old, new in keys.items() if old in details}


def _decision(output: Line) -> dict[str, Any]:
    specific = record(output.get("hookSpecificOutput"))
    return record(specific.get("decision")) or output


def _joined(answer: Any) -> Any:
    """The answer to a question as Claude Code writes it: several are one string."""
    return ", ".join(answer) if isinstance(answer, list) else answer


# -- what is offered --------------------------------------------------------------------------------------------------


def _options(asked: Asked) -> list[dict[str, Any]]:
    options = [{"id": ALLOW, "name": "Allow", "kind": "allow_once"}]
    if (remembers := remembered(asked.suggestions)) is not None:
        options.append({"id": ALWAYS, "name": "Always allow", "kind": "allow_always", "remembers": remembers})
    return [*options, {"id": DENY, "name": "Deny", "kind": "reject_once"}]


_PLACES = {
    "session": "until the session ends",
    "cliArg": "until the session ends",
    "localSettings": "in this project, for you",
    "projectSettings": "in this project, for everybody who works on it",
    "userSettings": "in all your projects",
}
_MODES = {
    "acceptEdits": "files are edited without asking",
    "bypassPermissions": "everything is done without asking",
    "auto": "a classifier decides in your place",
    "dontAsk": "what no rule allows is denied without asking",
    "plan": "nothing is changed until you accept a plan",
    "default": "Claude Code asks as usual",
}


def remembered(suggestions: list[dict[str, Any]]) -> str | None:
    """Return a sentence that says what is allowed from now on if all these suggestions of Claude Code are accepted;
    None if there are none, or one is not understood."""
    said = [_SAID[kind](one) if (kind := str(one.get("type"))) in _SAID else None for one in suggestions]
    return "; ".join(one for one in said if one) if said and all(said) else None


def _rules(one: dict[str, Any]) -> str | None:
    rules = [
        f"{name}({content})" if (content := string(rule.get("ruleContent"))) else f"every use of {name}"
        for rule in records(one.get("rules"))
        if (name := string(rule.get("toolName")))
    ]
    place = _PLACES.get(str(one.get("destination")))
    if one.get("behavior") != "allow" or not rules or place is None or len(rules) != len(records(one.get("rules"))):
        return None
    return f"allows {', '.join(rules)} {place}"


def _mode(one: dict[str, Any]) -> str | None:
    mode, place = str(one.get("mode")), _PLACES.get(str(one.get("destination")))
    return f"sets the mode {mode}: {_MODES[mode]}, {place}" if mode in _MODES and place else None


def _folders(one: dict[str, Any]) -> str | None:
    folders, place = strings(one.get("directories")), _PLACES.get(str(one.get("destination")))
    return f"adds the folders {', '.join(folders)} to those of the session, {place}" if folders and place else None


_SAID: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "addRules": _rules,
    "setMode": _mode,
    "addDirectories": _folders,
}
