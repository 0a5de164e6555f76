"""To-do lists as check lists: the state of each entry in words, and what has changed since the previous list."""

from __future__ import annotations

from typing import NamedTuple

from tooltap.daemon.show.blocks import Body, block, joined, limited, note, plain, prose, short
from tooltap.daemon.show.render_options import Look
from tooltap.daemon.show.tools.card import ToolCard, nothing
from tooltap.protocol.tools import Todo, TodoResult, TodoWriteInput

MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
_WORDS = {"pending": "to do", "in_progress": "in progress", "completed": "done"}


class _Entry(NamedTuple):
    text: str
    status: str
    mark: str
    word: str
    facts: tuple[str, ...]
    change: str


def todo_write_input(payload: TodoWriteInput, look: Look) -> Body:
    return joined(prose(payload.explanation, look, "/input/explanation"), _list(payload.todos or [], None, look))


def todo_write_output(result: TodoResult, look: Look) -> Body:
    """Show only what has changed, if the call's card shows the list."""
    written = None if look.call is None else TodoWriteInput.from_payload(look.call.input).todos
    is_known = written is not None and _texts(written) == _texts(result.todos or [])
    if not is_known:
        return joined(_list(result.todos or [], result.oldTodos, look), _message(result, look))
    if result.oldTodos is None:
        return _message(result, look)
    return joined(_changes(result.todos or [], result.oldTodos, look), _message(result, look))


def todo_read_output(result: TodoResult, look: Look) -> Body:
    return joined(_list(result.todos or [], result.oldTodos, look), _message(result, look))


def _message(result: TodoResult, look: Look) -> Body:
    """Show the tool's message to the model, where there is no list and at level `full`."""
    return plain(result.message, look, "/output/message") if result.todos is None or look.is_full else ()


def _texts(todos: list[Todo]) -> list[tuple[str | None, str | None]]:
    return [(todo.content, todo.status) for todo in todos]


def _list(todos: list[Todo], before: list[Todo] | None, look: Look) -> Body:
    if not todos:
        return ()
    part = limited([_entry(todo, change) for todo, change in zip(todos, _since(todos, before), strict=True)], look)
    done = sum(todo.status == "completed" for todo in todos)
    return block("todos", entries=part.shown, hidden=part.hidden, done=done, total=len(todos))


def _changes(todos: list[Todo], before: list[Todo], look: Look) -> Body:
    if not before:
        return note("A new list.")
    changed = [
        _entry(todo, change) for todo, change in zip(todos, _since(todos, before), strict=True) if change
    ] + _removed(todos, before)
    if not changed:
        return note("Nothing has changed.")
    part = limited(changed, look)
    return block("todos", entries=part.shown, hidden=part.hidden, done=0, total=0)


def _since(todos: list[Todo], before: list[Todo] | None) -> list[str]:
    """Return what is new about each entry; empty where it has not changed or there was no list."""
    if not before:
        return ["" for _ in todos]
    states = {_key(todo): todo.status or "" for todo in before}
    return [_change(states.get(_key(todo)), todo.status or "") for todo in todos]


def _change(before: str | None, now: str) -> str:
    if before is None:
        return "new"
    return "" if before == now else f"was {word_of(before)}"


def _removed(todos: list[Todo], before: list[Todo]) -> list[_Entry]:
    kept = {_key(todo) for todo in todos}
    return [_entry(todo, "removed") for todo in before if _key(todo) not in kept]


def _key(todo: Todo) -> str:
    return todo.id or todo.content or ""


def word_of(status: str) -> str:
    return _WORDS.get(status, short(status, 40))


def _entry(todo: Todo, change: str) -> _Entry:
    status = todo.status or ""
    facts = [short(todo.priority, 40)] if todo.priority else []
    if todo.activeForm and status == "in_progress":
        facts.append(short(todo.activeForm))
    return _Entry(
        text=short(todo.content or "", 1_000),
        status=short(status, 40),
        mark=MARKS.get(status, "▫"),
        word=word_of(status),
        facts=tuple(facts),
        change=change,
    )


CARDS = {
    "TodoWrite": ToolCard("☑", todo_write_input, todo_write_output),
    "TodoRead": ToolCard("☑", nothing, todo_read_output),
}
