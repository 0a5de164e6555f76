"""What a client chose for a request of an agent, whether the agent offers that, and the lines that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.protocol.answers import ForAgent, response_key

Outcome: TypeAlias = Literal["allowed", "denied", "answered", "cancelled"]

_PREFIXES: dict[str, str] = {"allowed": "allow", "denied": "reject"}
"""Prefixes of the kinds of options with these outcomes: ACP has `allow_once`, `allow_always`, `reject_once` and
`reject_always`, and agents add their own."""
_ONCE, _ALWAYS = "_once", "_always"
SEVERAL = ("multiSelect", "multiple", "multi_select")
"""How agents mark a question with several answers."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a `permission-request`."""

    id: str
    """Id of the answer: that of `ForAgent`."""
    outcome: Outcome
    option_id: str | None = None
    """One of the offered options. None: that of the outcome that holds for this request alone, or with `remember` the
    one that also holds for later requests."""
    answers: dict[str, Any] | None = None
    """With `answered`: answer to each question, a string or a list of strings, by the question's `id`, or by its text
    if it has none; a field of a form may also have a number or a boolean."""
    message: str | None = None
    """The reason of a denial, for the agent."""
    remember: bool = False


class NotOfferedError(ValueError):
    """The agent does not offer this answer; the message is one sentence for the client."""


class CannotWriteError(ValueError):
    """There is no line that tells this to the agent; the message is one sentence for the client."""


def choose(request: Mapping[str, Any], chosen: Chosen) -> dict[str, Any] | None:
    """Return the offered option that was chosen; None where it needs none. `request`: a `permission-request` as a JSON
    object. Raises `NotOfferedError`."""
    if chosen.outcome in ("allowed", "denied"):
        if chosen.answers is not None:
            raise NotOfferedError(f"`answers` go with the outcome answered, not {chosen.outcome}")
        return _option(request, chosen)
    if chosen.option_id is not None or chosen.remember:
        raise NotOfferedError(f"options go with the outcomes allowed and denied, not {chosen.outcome}")
    if chosen.outcome == "answered":
        _check_answers(request, chosen.answers or {})
    return None


def _option(request: Mapping[str, Any], chosen: Chosen) -> dict[str, Any] | None:
    options: Sequence[dict[str, Any]] = request.get("options") or ()
    if not options:
        if chosen.outcome == "allowed" and request.get("type") != "permission":
            raise NotOfferedError("this is a question: answer it with the outcome answered")
        if chosen.option_id is not None or chosen.remember:
            raise NotOfferedError("the agent offers no options for this request")
        return None
    fitting = [one for one in options if str(one.get("kind")).startswith(_PREFIXES[chosen.outcome])]
    if chosen.option_id is not None:
        return _named(options, fitting, chosen)
    kind = _PREFIXES[chosen.outcome] + (_ALWAYS if chosen.remember else _ONCE)
    found = [one for one in fitting if one.get("kind") == kind]
    if not found or (chosen.remember and len(found) > 1):
        what = " for later requests, too" if chosen.remember else " for this request alone"
        several = "several options do so" if found else "no option does so"
        raise NotOfferedError(f"{several} ({chosen.outcome}{what}): name one of {_listed(found or options)}")
    return found[0]


def _named(options: Sequence[dict[str, Any]], fitting: Sequence[dict[str, Any]], chosen: Chosen) -> dict[str, Any]:
    option = next((one for one in options if one.get("id") == chosen.option_id), None)
    if option is None:
        raise NotOfferedError(f"there is no option {chosen.option_id!r}: the agent offers {_listed(options)}")
    if option not in fitting:
        raise NotOfferedError(f"the option {chosen.option_id!r} does not mean {chosen.outcome}")
    if chosen.remember and not str(option.get("kind")).endswith(_ALWAYS):
        raise NotOfferedError(f"the option {chosen.option_id!r} holds for this request alone")
    return option


def _check_answers(request: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    if request.get("type") == "permission":
        raise NotOfferedError("this is no question: answer it with the outcome allowed or denied")
    questions = {str(one.get("id") or one.get("question")): one for one in request.get("questions") or ()}
    if questions and not answers:
        raise NotOfferedError("`answers` has the answer to each question")
    for key, answer in answers.items():
        if (question := questions.get(key)) is None:
            raise NotOfferedError(f"there is no question {key!r}: the agent asks {_quoted(questions)}")
        given = answer if isinstance(answer, list) else [answer]
        if len(given) != 1 and not any(question.get(name) for name in SEVERAL):
            raise NotOfferedError(f"the question {key!r} has one answer, not {len(given)}")
        _check_answer(key, question, given)


def _check_answer(key: str, question: Mapping[str, Any], given: Sequence[Any]) -> None:
    if any(isinstance(one, dict | list) or one is None for one in given):
        raise NotOfferedError(f"the answer to {key!r} is a string, or a list of strings")
    labels = [one.get("label") for one in question.get("options") or () if isinstance(one, Mapping)]
    for one in given:
        if labels and not question.get("freeText") and one not in labels:
            raise NotOfferedError(f"{one!r} is no answer to {key!r}: the agent offers {_quoted(labels)}")


def _listed(options: Sequence[Mapping[str, Any]]) -> str:
    return _quoted([one.get("id") for one in options])


def _quoted(names: Any) -> str:
    return ", ".join(repr(one) for one in names) or "nothing"


# -- lines for the agent ------------------------------------------------------------------------------------------


def answer_text(answer: Any) -> str:
    """An answer for agents that want one text, in which several answers are separated by commas."""
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


def answer_texts(answer: Any) -> list[str]:
    """An answer for agents that want a list."""
    return [str(one) for one in (answer if isinstance(answer, list) else [answer])]


def with_free_text(questions: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Questions that may be answered with other words than their options."""
    return [{**one, "freeText": True} for one in questions] if questions else questions


OWN = "tooltap-"
"""Prefix of the ids of requests that tooltap makes of an agent."""


def own_id(answer_id: str) -> str:
    """The id of a request that tooltap makes of an agent."""
    return f"{OWN}{answer_id}"


class Response(NamedTuple):
    """An agent's response to a prompt or an interrupt of tooltap's."""

    sent: str
    """Id of the prompt or interrupt: that of `ForAgent`."""
    refusal: str | None
    """Why the agent refuses it; None if it accepts it."""


def response_to_own(value: Any) -> Response | None:
    """Read the response to a prompt or an interrupt of tooltap's; None if a decoded line is something else."""
    if (key := response_key(value)) is None:
        return None
    sent = key.partition(":")[2].strip('"')
    if not sent.startswith(OWN):
        return None
    stated = value.get("response") if value.get("type") == "control_response" else value
    error = stated.get("error")
    if error is None and stated.get("success") is not False:
        return Response(sent.removeprefix(OWN), None)
    text = error.get("message") if isinstance(error, dict) else error
    return Response(sent.removeprefix(OWN), str(text or "it does not say why"))


def for_agent(id: str, message: Any, to_client: Any = None) -> ForAgent:  # noqa: A002 -- the schema's word
    """A line that answers the agent, or needs no answer. `to_client`: what closes the client's dialog."""
    shown = None if to_client is None else _line(to_client)
    return ForAgent(id=id, line=_line(message), answers=response_key(message), to_client=shown)


def request_for_agent(id: str, message: Any, response: Any) -> ForAgent:  # noqa: A002 -- the schema's word
    """A line that the agent responds to. `response`: any response to it."""
    return ForAgent(id=id, line=_line(message), asks=response_key(response))


def rpc_for_agent(id: str, method: str, params: dict[str, Any], **members: Any) -> ForAgent:  # noqa: A002 -- the schema's word
    """A JSON-RPC request. `members`: further members, such as `jsonrpc`."""
    request_id = own_id(id)
    message = {**members, "id": request_id, "method": method, "params": params}
    return request_for_agent(id, message, {"id": request_id, "result": None})


def post_for_agent(id: str, path: str, body: dict[str, Any]) -> ForAgent:  # noqa: A002 -- the schema's word
    """An HTTP request to the agent's server."""
    return ForAgent(id=id, line=_line(body), path=path)


def _line(message: Any) -> str:
    return msgspec.json.encode(message).decode()
