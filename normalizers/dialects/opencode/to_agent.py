"""What a client of OpenCode's server posts to it: answers, prompts, and aborts. All of it is about the folder in which
the server was started, like the event stream that is tapped."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.answers import CannotWriteError, Chosen, answer_texts, post_for_agent
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import first_string, strings
from tooltap.protocol.answers import ForAgent

_ONCE = {"id": "once", "name": "Allow once", "kind": "allow_once"}
_ALWAYS = {"id": "always", "name": "Allow always", "kind": "allow_always"}
_REJECT = {"id": "reject", "name": "Reject", "kind": "reject_once"}
_FORMS = {
    "permission": ("/permission/{id}/reply", "reply"),
    "type": ("/session/{session}/permissions/{id}", "response"),
    "action": ("/api/session/{session}/permission/{id}/reply", "reply"),
}
"""Key under which a request says what is asked for -> the path of the answer, and its key; `type` until 1.1, `action`
in `permission.v2`."""
_ID = re.compile(r"[A-Za-z0-9_-]+")


def options_of(request: Line) -> list[dict[str, Any]]:
    """The possible answers to every permission request, which the wire does not repeat. `always` names the patterns
    that are allowed from then on, until the server ends; before 1.1 that was the `pattern` asked for. `save` of
    `permission.v2` names those that are saved: without it, nothing can be allowed for later."""
    if "action" in request:
        saved = strings(request.get("save"))
        remembers = f"From now on: {request['action']} of {', '.join(saved)}"
        return [_ONCE, {**_ALWAYS, "remembers": remembers}, _REJECT] if saved else [_ONCE, _REJECT]
    stated = request.get("always", request.get("pattern"))
    patterns = [one for one in (stated if isinstance(stated, list) else [stated]) if isinstance(one, str)]
    wanted = first_string(request, "permission", "type")
    if not patterns or wanted is None:
        return [_ONCE, _ALWAYS, _REJECT]
    remembers = f"Until the server ends: {wanted} of {', '.join(patterns)}"
    return [_ONCE, {**_ALWAYS, "remembers": remembers}, _REJECT]


def reply_to(request: Line) -> dict[str, Any]:
    """What is needed to answer a permission request."""
    return {"form": next((key for key in _FORMS if key in request), None), "session": request.get("sessionID")}


def word_permission(permission_id: str, kept: Line, chosen: Chosen, option: Line | None) -> ForAgent:
    """Word an answer to a permission request. `kept`: its form and session. Raises `CannotWriteError`."""
    if option is None:
        raise CannotWriteError("OpenCode takes one of its options as the answer")
    if kept["form"] is None:
        raise CannotWriteError("this version of OpenCode asks in a form that tooltap cannot answer")
    path, key = _FORMS[kept["form"]]
    body = {key: option["id"]}
    if chosen.message is not None:
        body["message"] = chosen.message
    return post_for_agent(chosen.id, path.format(id=_part(permission_id), session=_part(kept["session"])), body)


def word_question(question_id: str, kept: Line, chosen: Chosen) -> ForAgent:
    """Word an answer to questions: a list of answers for each of them, in their order. `kept`: `questions`, their
    texts. Raises `CannotWriteError`."""
    path = f"/question/{_part(question_id)}"
    if chosen.outcome != "answered":
        return post_for_agent(chosen.id, f"{path}/reject", {})
    given = chosen.answers or {}
    answers = [answer_texts(given[text]) if text in given else [] for text in kept["questions"]]
    return post_for_agent(chosen.id, f"{path}/reply", {"answers": answers})


def word_prompt(session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    parts = [{"type": "text", "text": text}]
    return post_for_agent(id, f"/session/{_part(session)}/prompt_async", {"parts": parts})


def word_abort(session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    return post_for_agent(id, f"/session/{_part(session)}/abort", {})


def _part(name: Any) -> str:
    """An id as a part of a path, which names nothing else."""
    if isinstance(name, str) and _ID.fullmatch(name):
        return name
    raise CannotWriteError(f"{name!r} is no id of OpenCode's")
