"""Attacks on masking: each kind of secret that was once written to a trace, or to a page, as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.command import CLAUDE, here
from tests.secrets.shapes import Fake, fakes
from tests.traces.recording.tracing import put
from tooltap.traces.recording import writer as module
from tooltap.traces.recording.redact import Redactor
from tooltap.traces.recording.secrets import mask_lines
from tooltap.traces.recording.writer import TraceRecord, TraceWriter

FAKES = fakes(11)


def line_of(fake: Fake) -> bytes:
    """A line as an agent prints it: the answer of a tool, which is JSON in a string."""
    inner = json.dumps({"stdout": f"+ {fake.text}\n", "exit": 0})
    return json.dumps({"type": "tool_result", "content": [{"type": "text", "text": inner}]}).encode()


def test_no_kind_of_secret_reaches_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_TIMEOUT", 60.0)  # it writes all of them
    path = tmp_path / "trace.jsonl"
    writer = TraceWriter(path, print, file_bytes=2**20, total_bytes=2**24, buffer_bytes=2**20)
    lines = [line_of(fake) for fake in FAKES]
    put(writer, *(TraceRecord(v=1, t=1, stream="s", n=n, b64=line) for n, line in enumerate(lines, 1)))
    writer.close()
    written = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    texts = [json.loads(json.loads(one["line"])["content"][0]["text"])["stdout"] for one in written if one.get("line")]

    assert len(texts) == len(FAKES)
    assert [fake.shape for fake, text in zip(FAKES, texts, strict=True) if fake.secret in text] == []
    assert all(one["masked"] for one in written if one.get("line"))


def test_no_kind_of_secret_reaches_a_fixture() -> None:
    redactor = Redactor()
    lines = [line_of(fake) for fake in FAKES]
    for line in lines:
        redactor.learn(line)

    kept = [
        fake.shape for fake, line in zip(FAKES, lines, strict=True) if fake.secret in text_of(redactor.redact(line))
    ]

    assert kept == []


def test_no_kind_of_secret_reaches_a_page(tmp_path: Path) -> None:
    recording = tmp_path / "claude.jsonl"
    prompt = {"type": "user", "session_id": "s", "uuid": "u"}
    lines = [json.dumps({**prompt, "message": {"role": "user", "content": fake.text}}).encode() for fake in FAKES]
    recording.write_bytes(CLAUDE.read_bytes() + b"\n".join(lines) + b"\n")

    page = here("export", "--html", recording)

    assert page.returncode == 0
    assert b"[masked " in page.stdout
    kept = [fake.shape for fake in FAKES if fake.secret.encode() in page.stdout]
    assert kept == []


@pytest.mark.parametrize(
    "hostile",
    [
        '{"password": "' + "a1" * 10 + '\\"}',
        '{"password": "x\\u0022,\\"token\\": \\"y1y1y1y1y1y1\\""}',
        '{"a": "\\npm_' + "a1B2" * 9 + '"}',
        '{"a": "\\\\npm_' + "a1B2" * 9 + '"}',
        '{"a": "\\u00dapi' + "a1" * 16 + '"}',
        '{"password": 1e5, "secret": -12345678.5, "token": 123456789012345678}',
        '{"password": [1, "a1b2c3d4"], "secret": {"password": "a1b2c3d4"}, "api_key": null}',
    ],
)
def test_hostile_lines_stay_json(hostile: str) -> None:
    """Escapes that a rule could halve, and values that are no strings."""
    for text in (hostile, json.dumps([hostile]), json.dumps([json.dumps([hostile])])):
        [masked] = mask_lines([text.encode()])
        if is_json(text):
            assert is_json(masked), masked


def text_of(line: bytes) -> str:
    return str(json.loads(json.loads(line)["content"][0]["text"])["stdout"])


def is_json(text: str | bytes) -> bool:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return False
    return not isinstance(value, list) or all(is_json(one) for one in value if isinstance(one, str) and one[:1] == "{")
