"""Bodies of calls that ask the user: questions with options, permissions, plans; and of titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tooltap.daemon.show.blocks import (
    Body,
    Excerpt,
    RenderContext,
    ToolCard,
    block,
    excerpt,
    facts,
    folded,
    joined,
    limited,
    nothing,
    plain,
    prose,
    short,
)
from tooltap.daemon.show.tree import text_or_tree, tree
from tooltap.normalizers.wire.values import record, records, string
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
    ToolTypes,
    WorkspaceIndexingPermissionInput,
)

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


def options_body(options: list[Any], context: RenderContext) -> Body:
    """Show the options of a permission request, `{id, name, kind}` each."""
    shown = limited(records(options), context)
    if not shown.shown:
        return ()
    return block("options", options=[_choice(one) for one in shown.shown], hidden=shown.hidden)


def _choice(option: dict[str, Any]) -> _Option:
    """Return an option. One without a name has its id instead, and is explained by its kind."""
    identity = string(option.get("id")) or string(option.get("optionId")) or "?"
    name = string(option.get("name")) or identity
    kind = string(option.get("kind")) or ""
    return _Option(short(name), _KINDS.get(kind, short(kind)) if name == identity else "")


ANSWER = 10_000
"""Maximum characters of an answer in which options are recognized."""

# -- questions ----------------------------------------------------------------------------------------------------


class _Item(NamedTuple):
    header: str
    question: Excerpt
    several: bool
    options: list[_Option]
    hidden: int
    """Number of options that are not shown."""
    answer: Body
    """The rest of the answer: the user's own words, or an unknown form."""


def question_input(payload: AskUserQuestionInput, context: RenderContext) -> Body:
    return questions_body(payload.questions or [], None, context)


class Answers(AskUserQuestionResult):
    """The result of Claude Code 2.1: it repeats the questions, and `content` is for the model."""

    questions: list[Question] | None = None
    content: str | None = None


def question_output(result: Answers, context: RenderContext) -> Body:
    """Show the questions with the chosen options; without answers, the tool's text."""
    if result.answers is None:
        return plain(result.content, context, "/output/content")
    questions = records(None if context.call is None else context.call.input.get("questions"))
    return questions_body(questions or result.questions or [], result.answers, context)


def questions_body(
    questions: Sequence[Question | dict[str, Any]], answers: dict[str, Any] | None, context: RenderContext
) -> Body:
    """Show questions. `answers`: question text or id -> answer; None while there are none. An answer whose question is
    not in `questions` is shown as a question of its own."""
    left = dict(answers or {})
    parsed = [one if isinstance(one, Question) else Question.from_payload(one) for one in questions]
    shown = limited(parsed, context)
    items = [_item(one, left, context) for one in shown.shown]
    unasked = limited(list(left.items()), context) if not shown.hidden else limited([], context)
    items += [_item(Question(question=question), {question: answer}, context) for question, answer in unasked.shown]
    hidden = shown.hidden + unasked.hidden
    return block("questions", items=items, hidden=hidden, answered=answers is not None) if items else ()


def answers_body(answers: dict[str, Any], context: RenderContext) -> Body:
    """Show answers without their options, which another card shows."""
    if all(isinstance(answer, str) for answer in answers.values()):
        return facts((short(question), answer) for question, answer in limited(list(answers.items()), context).shown)
    return questions_body([], answers, context)


def _item(question: Question, answers: dict[str, Any], context: RenderContext) -> _Item:
    """Make the item of a question, and remove its answer from `answers`."""
    names = (question.question, string(question.extra.get("id")), question.header)
    answer = next((answers.pop(name) for name in names if name is not None and name in answers), None)
    offered = [
        (string(one.get("label")) or string(one.get("name")) or "?", string(one.get("description")) or "")
        for one in (option if isinstance(option, dict) else {"label": str(option)} for option in question.options or [])
    ]
    chosen, own = _chosen(answer, [label for label, _ in offered])
    part = limited(offered, context)
    return _Item(
        header=short(question.header or ""),
        question=excerpt(question.question or "", context),
        several=question.multiSelect is True,
        options=[_Option(short(label), description, label in chosen) for label, description in part.shown],
        hidden=part.hidden,
        answer=text_or_tree(own, context, ""),
    )


def _chosen(answer: Any, labels: list[str]) -> tuple[set[str], Any]:
    """Return which options the answer names, and the rest of the answer. Several labels are joined by commas; a label
    may contain commas itself."""
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
    """The result of Claude Code 2.1; `content` is for the model."""

    content: str | None = None


def plan_input(payload: ExitPlanModeInput, context: RenderContext) -> Body:
    return prose(payload.plan, context, "/input/plan")


def plan_output(result: Planned, context: RenderContext) -> Body:
    """Show the plan only if it differs from the proposed one."""
    proposed = None if context.call is None else context.call.input.get("plan")
    return joined(
        prose(result.plan, context, "/output/plan") if result.plan != proposed else (),
        plain(result.message, context, "/output/message"),
        plain(result.content, context, "/output/content"),
    )


# -- titles, reasoning, and dialogs of Happy ----------------------------------------------------------------------


def reasoning_input(payload: ReasoningInput, context: RenderContext) -> Body:
    return prose(payload.title, context, "/input/title")


def reasoning_output(result: ReasoningResult, context: RenderContext) -> Body:
    return prose(result.content, context, "/output/content")


def title_input(payload: ChangeTitleInput, context: RenderContext) -> Body:
    return facts([("new title", payload.title)])


def title_output(result: ChangeTitleResult, context: RenderContext) -> Body:
    """Show the title only if it differs from the requested one."""
    requested = None if context.call is None else context.call.input.get("title")
    title = facts([("title", result.title)]) if result.title != requested else ()
    return joined(title, plain(result.message, context, "/output/message"))


def history_import_input(payload: AcpHistoryImportInput, context: RenderContext) -> Body:
    tails = {"the last here": payload.localTail or [], "the last at the agent": payload.remoteTail or []}
    return joined(
        plain(payload.note, context, "/input/note"),
        facts(
            [
                ("agent", payload.provider),
                ("session", payload.remoteSessionId),
                ("messages here", payload.localCount),
                ("messages at the agent", payload.remoteCount),
            ]
        ),
        *(folded(words, tree(tail, context)) for words, tail in tails.items()),
    )


def indexing_input(payload: WorkspaceIndexingPermissionInput, context: RenderContext) -> Body:
    call = tree(payload.toolCall, context, "/input/toolCall") if context.is_full else ()
    return joined(prose(payload.title, context, "/input/title"), options_body(payload.options or [], context), call)


CARDS = {
    "AskUserQuestion": ToolCard("?", question_input, question_output, ToolTypes(AskUserQuestionInput, Answers)),
    "EnterPlanMode": ToolCard("☰", nothing, plan_output, ToolTypes(EnterPlanModeInput, Planned)),
    "ExitPlanMode": ToolCard("☰", plan_input, plan_output, ToolTypes(ExitPlanModeInput, Planned)),
    "Reasoning": ToolCard("✻", reasoning_input, reasoning_output),
    "change_title": ToolCard("✎", title_input, title_output),
    "AcpHistoryImport": ToolCard("↺", history_import_input),
    "WorkspaceIndexingPermission": ToolCard("?", indexing_input),
}
