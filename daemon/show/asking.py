"""A question that waits for a person, as the page shows it: what the agent wants, and what one can reply.

All words that say what a reply does are ours. An agent's names of its options stand beside them, as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from tooltap.daemon.show.blocks import Body, RenderContext, joined, short
from tooltap.daemon.show.bodies import asked_body
from tooltap.daemon.show.tools.registry import input_body
from tooltap.daemon.show.tree import tree
from tooltap.normalizers.core.answers import SEVERAL
from tooltap.normalizers.tools.registry import family_of
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.display import DisplayPermission
from tooltap.protocol.events import ToolCall
from tooltap.protocol.replies import Waiting

_WANTS = {
    "shell": "wants to run a command",
    "edit": "wants to change a file",
    "read": "wants to read a file",
    "search": "wants to search",
    "web": "wants to use the web",
    "task": "wants to start a subagent",
}
"""Family of a tool -> what an agent wants that asks for it."""


def what_it_wants(waiting: Waiting) -> str:
    """Return what an agent wants: `wants to run a command`."""
    if not waiting.certain:
        return "may be waiting for you"
    if waiting.type != "permission":
        return "asks you" if waiting.type == "question" else "asks you to fill in a form"
    if waiting.name == "ExitPlanMode":
        return "asks you to approve its plan"
    return _WANTS.get(family_of(waiting.name)) or (
        f"wants to use {short(waiting.name)}" if waiting.name else "asks for a permission"
    )


def asked(request: DisplayPermission, call: ToolCall | None, context: RenderContext) -> Body:
    """Show in full what is asked: the command, the diff, the plan. `call`: the one that a request is about, for a
    request that does not repeat it: display lines of calls have one argument. Questions and forms are left out:
    `fields_of` has them."""
    if request.type == "question":
        return ()
    if request.type == "elicitation":
        shown = {key: value for key, value in (request.input or {}).items() if key not in _SCHEMAS}
        return joined(asked_body(request.title, None, {}, context), tree(shown, context, "/input") if shown else ())
    if request.input or call is None:
        name = None if request.family is None else request.name  # else it is the type
        return asked_body(request.title, name, request.input or {}, context)
    return joined(asked_body(request.title, None, {}, context), input_body(call.name, call.input, context))


def asked_by_call(call: ToolCall, context: RenderContext) -> Body:
    """Show in full what a call asks itself."""
    return () if call.name == "AskUserQuestion" else input_body(call.name, call.input, context)


# -- permissions ----------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """A reply to a request for a permission."""

    outcome: Literal["allowed", "denied"]
    option: str | None
    """Id of the option; None if the agent offers none."""
    words: str
    """What it does, in our words."""
    name: str
    """What the agent calls it, if it offers several that do the same; else empty."""
    is_lasting: bool = False
    """Whether it also holds for later requests."""
    remembers: str = ""
    """For which ones: a sentence, or what the agent calls the option."""


_WORDS: dict[str, tuple[Literal["allowed", "denied"], str]] = {
    "allow_once": ("allowed", "Allow"),
    "reject_once": ("denied", "Deny"),
    "allow_always": ("allowed", "Always"),
    "reject_always": ("denied", "Never"),
}
"""Kind of an option -> its outcome, and what it does."""


def choices_of(options: Sequence[dict[str, Any]] | None) -> list[Choice]:
    """Return the replies to a request for a permission, those for this request alone first. Options of an unknown kind
    are left out: nobody knows what they do."""
    if not options:
        return [Choice("allowed", None, "Allow", ""), Choice("denied", None, "Deny", "")]
    found = []
    for kind, (outcome, words) in _WORDS.items():
        alike = [one for one in options if one.get("kind") == kind and isinstance(one.get("id"), str)]
        for one in alike:
            name = string(one.get("name")) or one["id"]
            remembers = string(one.get("remembers")) or name
            is_lasting = kind.endswith("always")
            found.append(
                Choice(outcome, one["id"], words, name if len(alike) > 1 else "", is_lasting, remembers * is_lasting)
            )
    return found


# -- questions and forms --------------------------------------------------------------------------------------------

Kind = Literal["one", "several", "text", "number", "integer", "boolean"]
_SCHEMAS = ("requested_schema", "requestedSchema")
_KINDS: dict[str, Kind] = {"number": "number", "integer": "integer", "boolean": "boolean"}


class Option(NamedTuple):
    value: Any
    label: str
    description: str


class Field(NamedTuple):
    """A question, or a field of a form."""

    key: str
    """By which the answer is named."""
    header: str
    words: str
    kind: Kind
    options: list[Option]
    takes_own_words: bool
    is_required: bool
    value: Any = None
    """What a form proposes."""


def fields_of(waiting: Waiting, payload: Mapping[str, Any]) -> list[Field]:
    """Return the questions of a request, or the fields of its form. `payload`: the request's input."""
    schema = next((record(payload[one]) for one in _SCHEMAS if one in payload), {})
    properties, required = record(schema.get("properties")), schema.get("required")
    if properties and not waiting.questions:
        names = required if isinstance(required, list) else []
        return [_field_of(name, record(spec), name in names) for name, spec in properties.items()]
    return [_question(one, record(properties.get(string(one.get("id")) or ""))) for one in waiting.questions or ()]


def _question(question: dict[str, Any], spec: dict[str, Any]) -> Field:
    words, key = string(question.get("question")) or "", string(question.get("id"))
    options = _options(question.get("options"))
    is_several = any(question.get(name) for name in SEVERAL)
    kind = _KINDS.get(string(question.get("type")) or string(spec.get("type")) or "", "text")
    return Field(
        words if key is None else key,
        string(question.get("header")) or "",
        words or key or "",
        "several" if is_several else "one" if options else kind,
        options,
        not options or question.get("freeText") is True,
        question.get("required", True) is not False,
        spec.get("default"),
    )


def _field_of(name: str, spec: dict[str, Any], is_required: bool) -> Field:
    choices = record(spec.get("items")) or spec
    titled = records(choices.get("oneOf") or choices.get("anyOf"))
    named = zip_longest(_list(choices.get("enum")), _list(choices.get("enumNames")))
    options = [
        Option(one["const"], _words(one.get("title"), one["const"]), string(one.get("description")) or "")
        for one in titled
        if "const" in one
    ] or [Option(value, _words(name, value), "") for value, name in named if value is not None]
    kind: Kind = _KINDS.get(str(spec.get("type")), "text")
    title, description = string(spec.get("title")), string(spec.get("description"))
    return Field(
        name,
        title or name,
        description or "",
        "several" if spec.get("type") == "array" else "one" if options else kind,
        options,
        not options,
        is_required,
        spec.get("default"),
    )


def _options(options: Any) -> list[Option]:
    found = [one if isinstance(one, dict) else {"label": one} for one in _list(options)]
    values = [(one, one["label"] if "label" in one else one.get("name")) for one in found]
    return [
        Option(value, _words(value, value), string(one.get("description")) or "")
        for one, value in values
        if isinstance(value, str | int | float)
    ]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(given: Any, value: Any) -> str:
    return given if isinstance(given, str) and given else str(value)
