"""Inputs of Continue's tools that need more than another key: the checklist is a text in Markdown."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.wire.values import record, string

_ENTRY = re.compile(r"^\s{0,20}[-*] \[([ xX])\] (.+)$", re.MULTILINE)


def read_input(name: str, given: Any) -> Any:
    text = string(record(given).get("checklist")) if name == "Checklist" else None
    if text is None:
        return given
    entries = [
        {"content": entry[2].strip(), "status": "pending" if entry[1] == " " else "completed"}
        for entry in _ENTRY.finditer(text)
    ]
    return {**given, "todos": entries}
