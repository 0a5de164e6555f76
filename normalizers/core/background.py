"""Work that runs on after its call was acknowledged: a command in the background, or a subagent.

How agents name the parts of it, in all dialects and wherever another protocol relays them:

| | starts it | asks for its output | stops it |
|---|---|---|---|
| Claude Code | `Bash`, `Agent` | `BashOutput`, `TaskOutput` | `KillShell`, `TaskStop` |
| Codex | `exec_command`, `exec`, `spawn_agent` | `write_stdin`, `wait`, `wait_agent` | `close_agent` |
| Copilot | `bash`, `powershell`, `task` | `read_bash`, `write_bash`, `read_agent` | `stop_bash` |
| Kimi | `Shell`, `Agent` | `TaskOutput` | `TaskStop` |
| Qwen Code | `run_shell_command` | | `task_stop` |

The call that starts it has an acknowledgement (`Answer.is_async`), which names the task. Each other call names the task
in its input, under one of `TASK_KEYS`. The first line that states the task's end gives the starting call its final
result: another call's result, or a notification. What such a line looks like is the dialect's knowledge.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer, Calls
from tooltap.normalizers.core.state import OpenCall, is_short, put
from tooltap.normalizers.core.writer import Writer

POLLS = frozenset({"BashOutput", "TaskOutput", "wait", "write_bash", "write_powershell", "write_stdin"})
"""Tools that return what a task has printed, by canonical name. Those that type into a command are among them."""
STOPS = frozenset({"KillShell", "TaskStop"})
"""Tools that stop a task, by canonical name."""
STEERING = POLLS | STOPS
"""Tools that name a task in their input, and whose results may therefore state its end."""
TASK_KEYS = (
    "task_id",
    "bash_id",
    "shell_id",
    "shellId",
    "agentId",
    "agent_id",
    "sessionId",
    "session_id",
    "cell_id",
)
"""Keys of an input that name the task."""
TASKS = 1_024
"""Maximum number of tasks that a stream's parser knows."""


def named_task(given: Any) -> str | None:
    """Return the id of the task that the input of a poll or a stop names; Codex states it as a number."""
    if not isinstance(given, dict):
        return None
    values = (given.get(key) for key in TASK_KEYS)
    return next((str(value) for value in values if type(value) is int or (is_short(value) and value)), None)


class Background:
    """The tasks that a stream's calls have started."""

    def __init__(self, writer: Writer, calls: Calls, tasks: dict[str, str]) -> None:
        """`tasks`: part of the parser's state, `<session>/<task>` -> id of the call that started the task."""
        self._writer = writer
        self._calls = calls
        self._tasks = tasks

    def began(self, task: str | None, call_id: str) -> None:
        """Remember the task that an acknowledgement names for its call (id on the wire)."""
        if task is not None and is_short(task):
            put(self._tasks, self._key(task), self._calls.id_of(call_id), TASKS)

    def running(self, task: str | None) -> OpenCall | None:
        """Return the call that started a task, if the task runs on."""
        call = None if task is None else self._calls.get(self._tasks.get(self._key(task), ""))
        return call if call is not None and call.acknowledged else None

    def has_begun(self, call: OpenCall) -> bool:
        """Return whether a task is known that a call has started."""
        return call.id in self._tasks.values()

    def ended(self, call: OpenCall, answer: Answer, *, raw: Any) -> None:
        """Emit the final result of a call that started a task. `raw`: the object that states the end."""
        self._calls.answer(call, answer, raw=raw, final=True)

    def _key(self, task: str) -> str:
        return f"{self._writer.session}/{task}"
