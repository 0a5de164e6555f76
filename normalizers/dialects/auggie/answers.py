"""How Auggie's tools answer, also where another protocol relays it: a command's answer is a text with tags."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.wire.values import between

_RETURN_CODE = ("<return-code>", "</return-code>")
_OUTPUT = ("<output>", "</output>")


def read_command(text: str) -> dict[str, Any] | None:
    """Read `<return-code>0</return-code><output>…</output>`: the exit code and the output. None for any other text."""
    code = between(text, *_RETURN_CODE)
    if code is None or len(code) > 20 or not code.strip().isdecimal():
        return None
    value: dict[str, Any] = {"exit_code": int(code)}
    if (printed := between(text, *_OUTPUT)) is not None:
        value["stdout"] = printed.strip()
    return value
