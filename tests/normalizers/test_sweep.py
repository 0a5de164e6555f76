"""No value of another type in a field of a line, or in a new key, is an error of ours. All: `make lab-containment`."""

from __future__ import annotations

import os
import random
from itertools import islice

import pytest

from tests.normalizers.sweep import VALUES, fields, strangers, sweep
from tooltap.normalizers.catalog.registry import builtin, recognise
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.tools.payload import decode_json

SEED = int(os.environ.get("TOOLTAP_SEED", "1"))
DIALECTS = 3
SAMPLE = 80


def test_any_value_in_any_field() -> None:
    chance = random.Random(SEED)
    dialects = chance.sample(sorted(builtin()), DIALECTS)
    found = list(fields(dialects))

    problems = [one for one in sweep(chance.sample(found, min(SAMPLE, len(found)))) if one[2]]
    problems += [one for one in islice(strangers(SEED, dialects[:1]), SAMPLE) if one[2]]

    assert not problems, [(field.dialect, field.path, str(value)[:50], text) for field, value, text in problems[:5]]


@pytest.mark.parametrize("value", [one for one in VALUES if not isinstance(one, bytes)], ids=lambda one: repr(one)[:20])
def test_recognition_never_raises(value: object) -> None:
    line = {"sessionId": "x", "type": value}
    recognise(line)
    for key in ("method", "params", "result", "id", "object", "choices", "role", "content", "event", "payload", "kind"):
        recognise({**line, key: value})


@pytest.mark.parametrize("number", [b"1" + b"0" * 5_000, b"-" + b"9" * 401, b"1" * 4_301])
def test_line_with_an_integer_that_python_does_not_read_is_read(number: bytes) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), "codex-exec")
    line = b'{"type":"item.completed","item":{"id":"a","type":"agent_message","text":"Hi","n":%b}}' % number

    texts = [one.fields.text for one in normalizer.feed(line) if isinstance(one, Produced) and one.kind == "message"]

    assert texts == ["Hi"]
    assert normalizer.statistics.repaired == 1


def test_json_in_a_string_that_is_nested_too_deeply_remains_a_string() -> None:
    deep = "[" * 100_000 + "]" * 100_000

    assert decode_json(deep) == deep
    assert decode_json("[" * 200 + "]" * 200) != "[" * 200 + "]" * 200
    assert decode_json("[" * 201 + "]" * 201) == "[" * 201 + "]" * 201
