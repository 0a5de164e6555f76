"""Masking takes time that grows with a line and no faster, whatever places to look at somebody writes into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.linear.timing import grows
from tooltap.traces.recording.secret_rules import Literal, rules
from tooltap.traces.recording.secrets import mask_lines

pytestmark = pytest.mark.lab
WHOLE = os.environ.get("TOOLTAP_LINEAR") == "whole"
SIZES = (250_000, 1_000_000) if WHOLE else (25_000, 100_000)
EACH = 1 if WHOLE else 100
"""Of so many literals one is tried."""
AFTER = ("", " ", "=", '="', '": "', ": a1", "\\", "KEY KEY-KEY ", '=\\"a1b2c3d4', ', a = "b", ')


def _written(literal: Literal) -> str:
    char = (
        next(char for char in "A1a" if char.encode() in literal.tail or b"-" in literal.tail) if literal.times else ""
    )
    return literal.text.decode("latin-1") + char * literal.times


LITERALS = sorted({_written(literal) for rule in rules() for literal in rule.literals})


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "literal", [*LITERALS[::EACH], "nasa.gov/", "notion", "flickr", "authkey:", "passw", "fm2_", "sk-none-", "://"]
)
def test_any_place_to_look_at_many_times(literal: str) -> None:
    for after in AFTER if WHOLE else AFTER[len(literal) % 3 :: 3]:

        def mask(size: int, piece: str = literal + after) -> Callable[[], Any]:
            line = orjson.dumps(
                {"text": piece * (size // 2 // len(piece)), "list": [piece] * (size // 2 // len(piece))}
            )
            return lambda: mask_lines([line])

        why = grows(mask, SIZES)
        assert why is None, f"{literal + after!r}: {why}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("length", [20, 200, 2_000])
def test_many_lines_of_them(length: int) -> None:
    """Each line has some looks, however short it is."""

    def mask(size: int) -> Callable[[], Any]:
        line = b'{"password": "' + b"token: a=" * (length // 10) + b'"}'
        return lambda: mask_lines([line] * (size // len(line)))

    why = grows(mask, SIZES)
    assert why is None, why
