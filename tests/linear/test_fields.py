"""Every string field of every dialect may hold anything, and its line takes time that grows with it and no faster.

The whole of what becomes of a line is measured, from recognition to display lines.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.linear.adversaries import Adversary
from tests.linear.fields import FORMS, Field, fields_of, line_with, reading, recordings, texts_of
from tests.linear.timing import cost, grows

pytestmark = pytest.mark.lab
WHOLE = os.environ.get("TOOLTAP_LINEAR") == "whole"
SEED = int(os.environ.get("TOOLTAP_SEED", "16"))
FIELDS = 25
"""Fields of each dialect that the suite tries, …"""
TEXTS = 3
"""… with so many texts each; …"""
MORE_TEXTS = 200
"""… `make lab-linear` tries all fields with so many."""
SIZE = 16_384
SUSPECT = 0.002
"""Seconds for a line of this size, from which on its growth is measured."""
LONGEST = 8_000_000
DIALECTS = sorted({dialect for dialect, _ in recordings()})


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_field_is_read_in_linear_time(dialect: str) -> None:
    chosen = random.Random(f"{SEED} {dialect}")
    fields = list(fields_of(dialect))
    if not WHOLE:
        fields = chosen.sample(fields, min(FIELDS, len(fields)))
    slow: list[str] = []
    for field, state in fields:
        texts = chosen.sample(texts_of(dialect), MORE_TEXTS if WHOLE else TEXTS)
        tried = [(text, chosen.choice(FORM_NAMES)) for text in texts]
        costs = {one: _cost(field, state, *one) for one in tried}
        slow += [why for one in tried if costs[one] > SUSPECT and (why := _grows(field, state, *one, (SIZE, 4 * SIZE)))]
        if WHOLE and (why := _grows(field, state, *max(costs, key=costs.__getitem__), (LONGEST // 8, LONGEST))):
            slow.append(why)

    assert not slow, "\n".join(slow)


FORM_NAMES = list(FORMS)


def _cost(field: Field, state: bytes, text: Adversary, form: str) -> float:
    data = line_with(field, text, form, SIZE)
    return cost(reading(field, state, data), len(data)).seconds


def _grows(field: Field, state: bytes, text: Adversary, form: str, sizes: tuple[int, ...]) -> str | None:
    def make(size: int) -> Callable[[], Any]:
        return reading(field, state, line_with(field, text, form, size))

    why = grows(make, sizes)
    return why and f"{field} with {text}, {form}: {why}"
