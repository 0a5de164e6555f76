"""Copilot in VS Code: the chats that the editor stores."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store
from tooltap.normalizers.wire.values import record

_OF_CHANGE = frozenset({"i", "k", "kind", "v"})


def _is_chat(value: dict[str, Any]) -> bool:
    """Rule for `vscode-chat`: a document, or a line of the log of its changes."""
    kind = value.get("kind")
    if type(kind) is not int:
        return "responderUsername" in value and "requests" in value
    if not value.keys() <= _OF_CHANGE:
        return False
    if kind == 0:
        return isinstance(record(value.get("v")).get("requests"), list)
    path = value.get("k")
    return kind in (1, 2, 3) and isinstance(path, list) and bool(path) and isinstance(path[0], str)


PRODUCT = "Copilot in VS Code"

DIALECTS = (
    Dialect(
        "vscode-chat",
        "parser:VSCodeChat",
        _is_chat,
        reads="chats of Copilot in VS Code",
        tapped_with="`tooltap serve --follow code`",
        arrives="streams blocks",
        omits="permission requests, tokens, cost; times of answers, the folder, what the model saw of commands, and "
        "inputs of most tools before the end of a turn",
        unproven="everything: shapes from VS Code's source, 1.132, and from public readers of these files",
    ),
)

_STORE = Store(
    "vscode-chat",
    variable="",
    home=".config/Code/User",
    below="workspaceStorage",
    files=re.compile(r"[^/]+/chatSessions/(?P<session>[^/]+)\.jsonl?"),
    beside=re.compile(r"[^/]+/(?!chatSessions/).+"),
)

AGENTS = (
    Agent(
        "code",
        (),
        None,
        provider="vscode",
        store=_STORE,
        older_stores=(_STORE._replace(home="Library/Application Support/Code/User"),),
    ),
)
