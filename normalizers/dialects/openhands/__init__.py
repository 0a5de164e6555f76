"""OpenHands: what `openhands --headless --json` prints, and the conversations that it stores."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, Prompt, Store


def _is_event(value: dict[str, Any]) -> bool:
    return value.keys() >= {"id", "kind", "source", "timestamp"} and str(value["kind"]).endswith("Event")


def _is_conversation(value: dict[str, Any]) -> bool:
    """Rule for `openhands-session`: a document that the reader of the store (`store.py`) makes of a conversation."""
    return value.keys() == {"base_state", "events"}


PRODUCT = "OpenHands"

DIALECTS = (
    Dialect(
        "openhands-json",
        "parser:OpenHandsJson",
        _is_event,
        reads="`openhands --headless --json`",
        tapped_with="`tooltap run -- openhands --headless --json -t …`",
        arrives="streams blocks",
        omits="permission requests, tokens, cost; the folder, what the model saw of a result, and the session's id "
        "before the end",
        unproven="reasoning, tools other than the terminal, errors",
    ),
    Dialect(
        "openhands-session",
        "parser:OpenHandsSession",
        _is_conversation,
        reads="OpenHands' stored conversations",
        tapped_with="`tooltap serve --follow openhands`",
        arrives="streams blocks",
        omits="permission requests; what the model saw of a result, and the zone of its times, which are taken for UTC",
        unproven="reasoning, tools other than the terminal, errors, cost, resumed conversations",
    ),
)

AGENTS = (
    Agent(
        "openhands",
        ("--json",),
        "--headless --json",
        store=Store(
            "openhands-session",
            variable="",
            home=".openhands",
            below="conversations",
            files=re.compile(r"(?P<session>[0-9a-f]+)/base_state\.json"),
            reader="store:OpenHandsStore",
            beside=re.compile(r"[^/]+/.+"),
        ),
        prompt=Prompt(options=("-t",), words="none", flags="--headless --json --override-with-envs"),
        resume=("--resume", SESSION),
    ),
)
