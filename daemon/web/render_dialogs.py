"""What agents ask people: questions with options, permissions, plans; and titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.web.look import Excerpt, Look, excerpt
from tooltap.daemon.web.markup import template
from tooltap.daemon.web.render_any import any_output, rest, tree
from tooltap.daemon.web.render_parts import facts, few, joined, plain, prose, short
from tooltap.normalizers.values import record, records, string
from tooltap.protocol.payloads import ToolResultPayload
from tooltap.protocol.tools import (
    AcpHistoryImportInput,
    AskUserQuestionInput,
    AskUserQuestionResult,
    ChangeTitleInput,
    ChangeTitleResult,
    EnterPlanModeInput,
    ExitPlanModeInput,
    PlanModeResult,
    Question,
    ReasoningInput,
    ReasoningResult,
    WorkspaceIndexingPermissionInput,
)

__all__ = [
    "answer_output",
    "choices",
    "enter_plan_input",
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


_KINDS = {"allow_once": "", "reject_once": "", "allow_always": "from now on", "reject_always": "from now on"}
"""What a label may leave open."""


def choices(options: list[Any], look: Look) -> Markup:
    """The answers a permission request offers, `{id, name, kind}` each."""
    shown = few(records(options), look)
    return template("options.html", options=[_choice(one) for one in shown.shown], hidden=shown.hidden)


def _choice(option: dict[str, Any]) -> _Option:
    label = string(option.get("name")) or string(option.get("id")) or string(option.get("optionId")) or "?"
    kind = string(option.get("kind")) or ""
    return _Option(short(label), _KINDS.get(kind, short(kind)))


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
    return joined(questions_asked(asked.questions or [], None, look), rest(asked.extra, look, "/input", "question"))


def question_output(result: AskUserQuestionResult, look: Look) -> Markup:
    """The questions again, with what was chosen; without answers, what the tool says."""
    extra = result.extra
    if result.answers is None:
        answer = result.value if result.value is not None else extra.get("content")
        return joined(_anything(answer, look), rest(extra, look, "/output", "content"))
    called = {} if look.call is None else look.call.input
    questions = records(called.get("questions")) or records(extra.get("questions"))
    return joined(
        questions_asked(questions, result.answers, look), rest(extra, look, "/output", "questions", "content")
    )


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
        answer=_anything(own, look),
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


def _anything(value: Any, look: Look) -> Markup:
    return plain(value, look) if isinstance(value, str) else tree(value, look, "")


# -- plans --------------------------------------------------------------------------------------------------------


def enter_plan_input(asked: EnterPlanModeInput, look: Look) -> Markup:
    return rest(asked.extra, look, "/input")


def plan_input(asked: ExitPlanModeInput, look: Look) -> Markup:
    return joined(prose(asked.plan, look, "/input/plan"), rest(asked.extra, look, "/input"))


def plan_output(result: PlanModeResult, look: Look) -> Markup:
    """The plan only where it is not what was proposed."""
    proposed = None if look.call is None else look.call.input.get("plan")
    content = string(result.extra.get("content"))
    return joined(
        prose(result.plan, look, "/output/plan") if result.plan != proposed else Markup(),
        plain(result.message, look, "/output/message"),
        plain(content, look, "/output/content"),
        _anything(result.value, look),
        rest(result.extra, look, "/output", *(["content"] if content is not None else [])),
    )


# -- titles, reasoning, the ancestor's own dialogs ----------------------------------------------------------------


def reasoning_input(asked: ReasoningInput, look: Look) -> Markup:
    return joined(prose(asked.title, look, "/input/title"), rest(asked.extra, look, "/input"))


def reasoning_output(result: ReasoningResult, look: Look) -> Markup:
    return joined(
        prose(result.content, look, "/output/content"),
        _anything(result.value, look),
        rest(result.extra, look, "/output"),
    )


def title_input(asked: ChangeTitleInput, look: Look) -> Markup:
    return joined(facts([("new title", asked.title)]), rest(asked.extra, look, "/input"))


def title_output(result: ChangeTitleResult, look: Look) -> Markup:
    """Nothing where the title is the one that was asked for."""
    asked = None if look.call is None else look.call.input.get("title")
    return joined(
        facts([("title", result.title)]) if result.title != asked else Markup(),
        plain(result.message, look, "/output/message"),
        _anything(result.value, look),
        rest(result.extra, look, "/output", "content", "isError"),
    )


def history_import_input(asked: AcpHistoryImportInput, look: Look) -> Markup:
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
        tree({"the last here": asked.localTail, "the last at the agent": asked.remoteTail}, look, "")
        if asked.localTail or asked.remoteTail
        else Markup(),
        rest(asked.extra, look, "/input"),
    )


def indexing_input(asked: WorkspaceIndexingPermissionInput, look: Look) -> Markup:
    return joined(
        prose(asked.title, look, "/input/title"),
        choices(asked.options or [], look),
        rest({"toolCall": asked.toolCall or {}, **asked.extra}, look, "/input"),
    )


def answer_output(result: ToolResultPayload, look: Look) -> Markup:
    """Of a dialog whose answer has no form of its own."""
    return joined(_anything(result.value, look), any_output(result.extra, look))
