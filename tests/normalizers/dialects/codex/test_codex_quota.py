"""The quota that Codex states with its token counts, in the words of three versions, and of the app-server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read
from tooltap.protocol.events import Notice, QuotaWindow, Usage

START = 1_790_000_000
"""Time of the lines, in seconds since the epoch: 2026-09-21T14:13:20Z."""
META = {
    "timestamp": "2026-09-21T14:13:20Z",
    "type": "session_meta",
    "payload": {"id": "0199aaaa-0000-7000-8000-000000000001", "timestamp": "2026-09-21T14:13:20Z", "cwd": "/ws"},
}
TOKENS = {"input_tokens": 1_000, "output_tokens": 10, "total_tokens": 1_010}
INFO = {"total_token_usage": TOKENS, "last_token_usage": TOKENS}


def counted(limits: Any, info: Any = INFO) -> dict[str, Any]:
    payload = {"type": "token_count", "info": info, "rate_limits": limits}
    return {"timestamp": "2026-09-21T14:13:20Z", "type": "event_msg", "payload": payload}


def window(name: str, minutes: int, used: float, resets_at: int | None = None) -> QuotaWindow:
    return QuotaWindow(name=name, minutes=minutes, used_percent=used, resets_at=resets_at)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (
            {"primary_used_percent": 2.0, "secondary_used_percent": 12.0, "primary_to_secondary_ratio_percent": 0.0}
            | {"primary_window_minutes": 299, "secondary_window_minutes": 10_079},
            [window("primary", 299, 2.0), window("secondary", 10_079, 12.0)],
        ),
        (
            {"primary": {"used_percent": 50.5, "window_minutes": 300, "resets_in_seconds": 600}, "secondary": None},
            [window("primary", 300, 50.5, (START + 600) * 1000)],
        ),
        (
            {"limit_id": "codex", "primary": {"used_percent": 0, "window_minutes": 300, "resets_at": START + 60}},
            [window("primary", 300, 0.0, (START + 60) * 1000)],
        ),
        ({"limit_id": "codex", "primary": None, "secondary": None, "plan_type": None}, None),
        ({"primary": {"used_percent": "most"}, "secondary": [1], "primary_used_percent": 1e9}, None),
        ([1], None),
    ],
    ids=["0.30", "0.40", "0.169", "none", "malformed", "no object"],
)
def test_quota_is_part_of_the_usage_that_it_comes_with(limits: Any, expected: list[QuotaWindow] | None) -> None:
    (usage,) = of(Usage, read("codex-rollout", META, counted(limits)))

    assert (usage.input_tokens, usage.quota) == (1_000, expected)


def test_quota_is_stated_once_until_it_changes() -> None:
    def used(percent: float) -> dict[str, Any]:
        return {"primary": {"used_percent": percent, "window_minutes": 300, "resets_at": START}}

    made = [counted(used(1.0), None), counted(used(1.0)), counted(used(1.0)), counted(used(2.0)), counted(None)]
    found = of(Usage, read("codex-rollout", META, *made))

    assert [(one.input_tokens, one.quota and one.quota[0].used_percent) for one in found] == [
        (None, 1.0),
        (1_000, None),
        (None, 2.0),
    ]


def test_quota_of_the_app_server_comes_once_a_thread_is_known() -> None:
    """Before, it would be a session of its own. Reaching a limit is a notice besides."""
    limits = {"limitId": "codex", "primary": {"usedPercent": 100, "windowDurationMins": 300, "resetsAt": START}}
    update = {
        "method": "account/rateLimits/updated",
        "params": {"rateLimits": {**limits, "rateLimitReachedType": "primary"}},
    }
    started = {"method": "thread/started", "params": {"thread": {"id": "a", "turns": []}}}

    assert of(Usage, read("codex-app-server", update)) == []
    found = read("codex-app-server", update, started, update, update)
    assert [(one.session, one.quota) for one in of(Usage, found)] == [
        ("a", [window("primary", 300, 100.0, START * 1000)])
    ]
    assert [(one.session, one.text) for one in of(Notice, found)] == [("s", "primary"), ("a", "primary")]
