"""Notices of the Agent SDK (0.3.220).

No recording of ours has them; the shapes are those that public readers of the SDK assert.
"""

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.claude import helpers as claude
from tooltap.protocol.events import Notice, SessionEvent, ToolUpdate, Unparsed
from tooltap.testing import Line

NOTED: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
    ({"subtype": "notification", "key": "k", "text": "3 tasks done"}, ("info", "notification", "3 tasks done")),
    ({"subtype": "informational", "content": "low disk", "level": "warning"}, ("warning", "informational", "low disk")),
    ({"subtype": "plugin_install", "status": "failed", "name": "p"}, ("warning", "plugin-install", "p")),
    ({"subtype": "mirror_error", "error": "eperm", "key": {"subpath": "x"}}, ("warning", "mirror-error", "eperm")),
    ({"subtype": "worker_shutting_down", "reason": "host_exit"}, ("info", "worker-shutting-down", "host_exit")),
    ({"subtype": "memory_recall", "memories": [{"path": "/m.md"}]}, ("info", "memory-recall", "memory recall")),
    (
        {"subtype": "model_refusal_fallback", "original_model": "a", "fallback_model": "b", "content": "b answers"},
        ("info", "model-refusal-fallback", "b answers"),
    ),
    (
        {"subtype": "files_persisted", "files": [], "failed": [{"filename": "b", "error": "nope"}]},
        ("info", "files-persisted", "files persisted"),
    ),
    (
        {"type": "tool_use_summary", "summary": "Read 2 files", "preceding_tool_use_ids": ["toolu_1"]},
        ("info", "tool-use-summary", "Read 2 files"),
    ),
    ({"type": "prompt_suggestion", "suggestion": "try /help"}, ("info", "prompt-suggestion", "try /help")),
    ({"type": "auth_status", "isAuthenticating": False, "error": "expired"}, ("warning", "auth-status", "expired")),
    ({"type": "active_goal", "value": None}, ("info", "active-goal", "active goal")),
    ({"subtype": "vcs_state_changed", "kind": "commit"}, ("info", "vcs-state-changed", "vcs state changed")),
    (
        {"subtype": "code_change_published", "provider": "github", "identifier": "1"},
        ("info", "code-change-published", "code change published"),
    ),
]
QUIET: list[dict[str, Any]] = [
    {"type": "command_lifecycle", "command_uuid": "c1", "state": "queued"},
    {"subtype": "cloud_session_delta", "cloud_session": {"state": "running"}},
    {"subtype": "dev_intent", "kind": "ios_app"},
]
"""Lines of 2.1.218 to 2.1.266 that say nothing about the work."""


@pytest.mark.parametrize(("line", "expected"), NOTED, ids=[expected[1] for _, expected in NOTED])
def test_sdk_line_is_notice(line: dict[str, Any], expected: tuple[str, str, str]) -> None:
    found = claude.read(claude.init(), {"type": "system", **line})

    [notice] = claude.of(Notice, found)
    assert (notice.level, notice.code, notice.text) == expected
    given = {key: value for key, value in line.items() if key not in ("type", "subtype") and value is not None}
    assert (notice.data or {}) == given


@pytest.mark.parametrize("line", QUIET, ids=["command_lifecycle", "cloud_session_delta", "dev_intent"])
def test_line_of_the_clients_own_state_is_skipped(line: dict[str, Any]) -> None:
    made = Line(orjson.dumps({"session_id": claude.SESSION, "type": "system", "uuid": "u", **line}))

    assert claude.statistics([made]).skipped == {"status": 1}


def test_changed_commands_update_session() -> None:
    changed = {"type": "system", "subtype": "commands_changed", "commands": [{"name": "usage", "aliases": ["cost"]}]}
    found = claude.read(claude.init(), changed, changed)

    assert [event.commands for event in claude.of(SessionEvent, found)] == [None, ["usage"]]


def test_tool_progress_updates_call() -> None:
    progress = {"type": "tool_progress", "tool_use_id": "toolu_1", "tool_name": "Bash", "elapsed_time_seconds": 12}
    used = claude.assistant(claude.use("toolu_1", "Bash", command="make"))
    found = claude.read(claude.init(), used, progress, {**progress, "tool_use_id": "gone"})

    [update] = claude.of(ToolUpdate, found)
    assert update.call_id == "toolu_1"
    assert update.progress == {"data": {"elapsed_time_seconds": 12}}


def test_unknown_subtype_is_unparsed() -> None:
    found = claude.read(claude.init(), {"type": "system", "subtype": "state", "state": {"phase": "idle"}})

    assert [event.reason for event in claude.of(Unparsed, found)] == ["unknown-type"]
