"""What Codex offers its user, and what a client of the app-server writes to it: answers, prompts, interrupts.

Every option has its result on the wire (`Offer`), so that choosing one is looking it up, and so is reading which one a
client has chosen.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from tooltap.normalizers.core.answers import CannotWriteError, Chosen, answer_texts, for_agent, rpc_for_agent
from tooltap.normalizers.core.forms import form_answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import first_string, record, strings
from tooltap.protocol.answers import ForAgent

_KINDS = {
    "approved": "allow_once",
    "approved_for_session": "allow_always",
    "approved_execpolicy_amendment": "allow_always",
    "allow": "allow_always",
    "denied": "reject_once",
    "abort": "reject_once",
    "deny": "reject_always",
    "accept": "allow_once",
    "acceptForSession": "allow_always",
    "acceptWithExecpolicyAmendment": "allow_always",
    "decline": "reject_once",
    "cancel": "reject_once",
}
"""Codex's decision (`ReviewDecision`; from `accept` on, the app-server's words) -> kind of option. `allow` and `deny`
are decisions of a network rule."""

_OLDER = ("approved", "approved_for_session", "denied", "abort")
_NEWER = ("accept", "acceptForSession", "decline", "cancel")
_DECISIONS = {
    "applyPatchApproval": _OLDER,
    "execCommandApproval": _OLDER,
    "item/commandExecution/requestApproval": _NEWER,
    "item/fileChange/requestApproval": _NEWER,
}
"""Method of a request -> the decisions that it always takes, where it does not state them."""
_REFUSALS = {"decline": "cancel", "denied": "abort"}
"""Decision that refuses -> the one that also ends the turn. Codex takes the first although it only states the second
(0.169)."""
_PATCHES = ("applyPatchApproval", "item/fileChange/requestApproval")
_SESSION, _FOREVER = "Until the session ends", "From now on"
_PERSISTS = {"session": ("acceptForSession", _SESSION), "always": ("acceptAlways", _FOREVER)}
"""How long the approval of an MCP server's tool may hold -> (id of the option, what it is called)."""

_REFUSED = -32_000
"""Code of an error of a JSON-RPC application."""


class Offer(NamedTuple):
    """An option."""

    kind: str | None
    result: dict[str, Any]
    """The result in the client's answer."""
    remembers: str | None = None


def decision_offers(method: str, stated: Any) -> dict[str, Offer]:
    """The decisions about a command or a patch, by the ids of their options. `method`: of the app-server's request;
    empty for events of the core. `stated`: the decisions that it states, if any."""
    known = _DECISIONS.get(method, ())
    decisions = list(stated) if isinstance(stated, list) else list(known)
    for refusal, ends in _REFUSALS.items():
        if refusal in known and refusal not in decisions:
            decisions.insert(decisions.index(ends) if ends in decisions else len(decisions), refusal)
    subject = "these files" if method in _PATCHES else "this command"
    offers: dict[str, Offer] = {}
    for decision in decisions:
        if (word := word_of(decision)) is None:
            continue
        number = sum(one.partition("-")[0] == word for one in offers)
        offer = Offer(_KINDS.get(word), {"decision": decision}, _remembered(word, decision, subject))
        offers[f"{word}-{number + 1}" if number else word] = offer
    return offers


def word_of(decision: Any) -> str | None:
    """Return the word of a decision, `"approved"` or `{"approved_execpolicy_amendment": …}`; for a network rule, its
    action."""
    if isinstance(decision, dict) and decision:
        word = str(next(iter(decision)))
        return first_string(_network_rule(decision), "action") or word
    return decision if isinstance(decision, str) else None


def allows(word: str) -> bool:
    """Whether a decision allows."""
    return _KINDS.get(word, "").startswith("allow")


def _network_rule(decision: Line) -> Line:
    return record(record(next(iter(decision.values()))).get("network_policy_amendment"))


def _remembered(word: str, decision: Any, subject: str) -> str | None:
    if isinstance(decision, dict):
        if host := first_string(_network_rule(decision), "host"):
            return f"{_FOREVER}: {'' if word == 'allow' else 'no '}connections to {host}"
        stated = record(next(iter(decision.values())))
        words = strings(stated.get("execpolicy_amendment") or stated.get("proposed_execpolicy_amendment"))
        return f"{_FOREVER}: commands that begin with {shlex.join(words)}" if words else None
    return f"{_SESSION}: {subject}" if _KINDS.get(word) == "allow_always" else None


def permission_offers(permissions: Any) -> dict[str, Offer]:
    """Grants of permissions: all that are requested, for the turn or the session, or none."""
    asked = record(permissions)
    return {
        "turn": Offer("allow_once", {"permissions": asked, "scope": "turn"}),
        "session": Offer("allow_always", {"permissions": asked, "scope": "session"}, f"{_SESSION}: these permissions"),
        "decline": Offer("reject_once", {"permissions": {}, "scope": "turn"}),
    }


def tool_offers(params: Line) -> dict[str, Offer]:
    """Approvals of a tool of an MCP server, which Codex asks for with a form without fields."""
    meta = record(params.get("_meta"))
    stated = meta.get("persist")
    tool = f"the tool {meta.get('tool_name')} of {params.get('serverName')}"
    offers = {"accept": Offer("allow_once", _action("accept", {}))}
    for persist in [stated] if isinstance(stated, str) else strings(stated):
        if persist in _PERSISTS:
            option_id, how_long = _PERSISTS[persist]
            result = _action("accept", {}, {"persist": persist})
            offers[option_id] = Offer("allow_always", result, f"{how_long}: {tool}")
    offers["decline"] = Offer("reject_once", _action("decline", None))
    offers["cancel"] = Offer("reject_once", _action("cancel", None))
    return offers


def _action(action: str, content: Any, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"action": action, "content": content, "_meta": meta}


def options_of(offers: Mapping[str, Offer]) -> list[dict[str, Any]]:
    """The options of a permission request."""
    options = []
    for option_id, offer in offers.items():
        stated = {"kind": offer.kind, "remembers": offer.remembers}
        name = {"id": option_id, "name": option_id}
        options.append({**name, **{key: value for key, value in stated.items() if value is not None}})
    return options


def kept_of(request_id: Any, offers: Mapping[str, Offer]) -> dict[str, Any]:
    """What is needed to answer a request that offers options."""
    return {"id": request_id, "results": {option_id: offer.result for option_id, offer in offers.items()}}


def option_of(result: Line, results: dict[str, Any]) -> str | None:
    """The option that a client's result chooses. `results`: id of the option -> its result."""
    gist = _gist(result)
    return next((option_id for option_id, one in results.items() if _gist(one) == gist), None)


def _gist(result: Line) -> tuple[Any, ...]:
    """What of a result means something to Codex."""
    persist = record(result.get("_meta")).get("persist")
    granted = {key: value for key, value in record(result.get("permissions")).items() if value is not None}
    return result.get("decision"), result.get("action"), persist, granted, result.get("scope") or "turn"


def word_answer(kept: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
    """Word an answer. `kept`: `id`, the JSON-RPC id, and `results`, by option; for a form, `types`, the types of its
    fields. Raises `CannotWriteError`."""
    answer: dict[str, Any] = {"id": kept["id"]}
    if "results" in kept:
        if option is None:
            raise CannotWriteError("Codex takes one of its options as the answer")
        answer["result"] = kept["results"][option["id"]]
    elif "types" in kept:
        answer["result"] = {"content": None, "_meta": None, **form_answer(chosen, kept["types"])}
    elif chosen.outcome == "answered":
        given = {name: {"answers": answer_texts(one)} for name, one in (chosen.answers or {}).items()}
        answer["result"] = {"answers": given}
    else:
        answer["error"] = {"code": _REFUSED, "message": chosen.message or "The user dismissed the question."}
    return for_agent(chosen.id, answer)


def word_prompt(session: str, turn_id: str | None, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    """Word a prompt. `turn_id`: the turn that is running, if any; the prompt steers it."""
    params: dict[str, Any] = {"threadId": session, "input": [{"type": "text", "text": text, "text_elements": []}]}
    if turn_id is None:
        return rpc_for_agent(id, "turn/start", params)
    return rpc_for_agent(id, "turn/steer", {**params, "expectedTurnId": turn_id})


def word_interrupt(session: str, turn_id: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    return rpc_for_agent(id, "turn/interrupt", {"threadId": session, "turnId": turn_id})


def is_free(question: Line) -> bool:
    """Whether a question may be answered with other words than its options."""
    return question.get("is_other") is True and bool(question.get("options"))
