"""What agents ask people: questions with options, permissions, plans; and titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.web.cards.any import said, tree
from tooltap.daemon.web.cards.parts import facts, few, folded, joined, plain, prose, short
from tooltap.daemon.web.html.look import Excerpt, Look, excerpt
from tooltap.daemon.web.html.markup import template
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.tools import (
    AcpHistoryImportInput,
    AskUserQuestionInput,
    AskUserQuestionResult,
    ChangeTitleInput,
    ChangeTitleResult,
    ExitPlanModeInput,
    PlanModeResult,
    Question,
    ReasoningInput,
    ReasoningResult,
    WorkspaceIndexingPermissionInput,
)

__all__ = [
    "Answers",
    "Planned",
    "answers_given",
    "choices",
    "history_import_input",
    "indexing_input",
    "plan_input",
    "plan_output",
    "question_input",
    "question_output",
    "questions_asked",
    "reasoning_input",
    "reasoning_output",
    "title_input",
    "title_output",
]

# -- options ------------------------------------------------------------------------------------------------------


class _Option(NamedTuple):
    label: str
    description: str
    is_chosen: bool = False


_KINDS = {
    "allow_once": "allows it this once",
    "allow_always": "allows it from now on",
    "reject_once": "refuses it this once",
    "reject_always": "refuses it from now on",
}


def choices(options: list[Any], look: Look) -> Markup:
    """The answers a permission request offers, `{id, name, kind}` each."""
    shown = few(records(options), look)
    return template("options.html", options=[_choice(one) for one in shown.shown], hidden=shown.hidden)


def _choice(option: dict[str, Any]) -> _Option:
    """One that has no name is explained by its kind."""
    identity = string(option.get("id")) or string(option.get("optionId")) or "?"
    name = string(option.get("name")) or identity
    kind = string(option.get("kind")) or ""
    return _Option(short(name), _KINDS.get(kind, short(kind)) if name == identity else "")


ANSWER = 10_000
"""Characters of an answer in which options are looked for."""

# -- questions ----------------------------------------------------------------------------------------------------


class _Asked(NamedTuple):
    header: str
    question: Excerpt
    several: bool
    options: list[_Option]
    hidden: int
    """Options that are not shown."""
    answer: Markup
    """In the person's own words, or of a form we do not know."""


def question_input(asked: AskUserQuestionInput, look: Look) -> Markup:
    return questions_asked(asked.questions or [], None, look)


class Answers(AskUserQuestionResult):
    """As Claude Code 2.1 gives it: the questions again, and what the model is told."""

    questions: list[Question] | None = None
    content: str | None = None


def question_output(result: Answers, look: Look) -> Markup:
    """The questions again, with what was chosen; without answers, what the tool says."""
    if result.answers is None:
        return plain(result.content, look, "/output/content")
    asked = records(None if look.call is None else look.call.input.get("questions"))
    return questions_asked(asked or result.questions or [], result.answers, look)


def questions_asked(
    questions: Sequence[Question | dict[str, Any]], answers: dict[str, Any] | None, look: Look
) -> Markup:
    """`answers`: question, or its id -> answer; None where none is known yet. An answer to a question that is not
    among them stands for itself."""
    left = dict(answers or {})
    asked = [one if isinstance(one, Question) else Question.from_payload(one) for one in questions]
    shown = few(asked, look)
    items = [_asked(one, left, look) for one in shown.shown]
    unasked = few(list(left.items()), look) if not shown.hidden else few([], look)
    items += [_asked(Question(question=question), {question: answer}, look) for question, answer in unasked.shown]
    hidden = shown.hidden + unasked.hidden
    return template("questions.html", items=items, hidden=hidden, answered=answers is not None) if items else Markup()


def answers_given(answers: dict[str, Any], look: Look) -> Markup:
    """Without the questions, which stand elsewhere."""
    if all(isinstance(answer, str) for answer in answers.values()):
        return facts((short(question), answer) for question, answer in few(list(answers.items()), look).shown)
    return questions_asked([], answers, look)


def _asked(asked: Question, answers: dict[str, Any], look: Look) -> _Asked:
    """Takes its answer out of `answers`."""
    names = (asked.question, string(asked.extra.get("id")), asked.header)
    answer = next((answers.pop(name) for name in names if name is not None and name in answers), None)
    offered = [
        (string(one.get("label")) or string(one.get("name")) or "?", string(one.get("description")) or "")
        for one in (option if isinstance(option, dict) else {"label": str(option)} for option in asked.options or [])
    ]
    chosen, own = _chosen(answer, [label for label, _ in offered])
    part = few(offered, look)
    return _Asked(
        header=short(asked.header or ""),
        question=excerpt(asked.question or "", look),
        several=asked.multiSelect is True,
        options=[_Option(short(label), description, label in chosen) for label, description in part.shown],
        hidden=part.hidden,
        answer=said(own, look, ""),
    )


def _chosen(answer: Any, labels: list[str]) -> tuple[set[str], Any]:
    """Which of the options the answer names, and what else it says. Several are joined by commas; a label may have
    commas itself."""
    given = record(answer).get("answers", answer)  # Codex: {answers: [label, …]}
    words = given if isinstance(given, list) else [given]
    if not all(isinstance(word, str) and len(word) <= ANSWER for word in words):
        return set(), answer
    longest_first = sorted(filter(None, labels), key=len, reverse=True)
    chosen: set[str] = set()
    own: list[str] = []
    for word in words:
        left = word
        while label := next((one for one in longest_first if left == one or left.startswith(f"{one}, ")), None):
            chosen.add(label)
            left = left[len(label) :].removeprefix(", ")
        own += [left] if left else []
    return chosen, ", ".join(own)


# -- plans --------------------------------------------------------------------------------------------------------


class Planned(PlanModeResult):
    """As Claude Code 2.1 gives it: with what the model is told."""

    content: str | None = None


def plan_input(asked: ExitPlanModeInput, look: Look) -> Markup:
    return prose(asked.plan, look, "/input/plan")


def plan_output(result: Planned, look: Look) -> Markup:
    """The plan only where it is not what was proposed."""
    proposed = None if look.call is None else look.call.input.get("plan")
    return joined(
        prose(result.plan, look, "/output/plan") if result.plan != proposed else Markup(),
        plain(result.message, look, "/output/message"),
        plain(result.content, look, "/output/content"),
    )


# -- titles, reasoning, the ancestor's own dialogs ----------------------------------------------------------------


def reasoning_input(asked: ReasoningInput, look: Look) -> Markup:
    return prose(asked.title, look, "/input/title")


def reasoning_output(result: ReasoningResult, look: Look) -> Markup:
    return prose(result.content, look, "/output/content")


def title_input(asked: ChangeTitleInput, look: Look) -> Markup:
    return facts([("new title", asked.title)])


def title_output(result: ChangeTitleResult, look: Look) -> Markup:
    """Nothing where the title is the one that was asked for."""
    asked = None if look.call is None else look.call.input.get("title")
    title = facts([("title", result.title)]) if result.title != asked else Markup()
    return joined(title, plain(result.message, look, "/output/message"))


def history_import_input(asked: AcpHistoryImportInput, look: Look) -> Markup:
    tails = {"the last here": asked.localTail or [], "the last at the agent": asked.remoteTail or []}
    return joined(
        plain(asked.note, look, "/input/note"),
        facts(
            [
                ("agent", asked.provider),
                ("session", asked.remoteSessionId),
                ("messages here", asked.localCount),
                ("messages at the agent", asked.remoteCount),
            ]
        ),
        *(folded(words, tree(tail, look)) for words, tail in tails.items()),
    )


def indexing_input(asked: WorkspaceIndexingPermissionInput, look: Look) -> Markup:
    call = tree(asked.toolCall, look, "/input/toolCall") if look.is_full else Markup()
    return joined(prose(asked.title, look, "/input/title"), choices(asked.options or [], look), call)
