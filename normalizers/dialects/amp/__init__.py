"""Amp: Claude Code's lines, with sessions of its own."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect

_THREAD = re.compile(r"T-[0-9a-f]{8}-[0-9a-f-]{27}", re.ASCII)
_TYPES = frozenset({"assistant", "result", "system", "user"})


def _is_amp_stream(value: dict[str, Any]) -> bool:
    kind, session = value.get("type"), value.get("session_id")
    if not (isinstance(kind, str) and isinstance(session, str)):
        return False
    return kind in _TYPES and _THREAD.fullmatch(session) is not None


PRODUCT = "Amp"

DIALECTS = (
    Dialect(
        "amp-stream",
        "parser:AmpStream",
        _is_amp_stream,
        reads="`amp -x --stream-json`",
        tapped_with="`tooltap run -- amp -x --stream-json …`",
        arrives="streams blocks",
        omits="reasoning, permission requests, cost; the model",
        unproven="everything: shapes from the vendor's documentation and its SDK",
        takes_from=("claude-stream",),
    ),
)

AGENTS = (Agent("amp", ("--stream-json",), "-x … --stream-json", package="@ampcode/cli"),)
