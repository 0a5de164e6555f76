"""A line with too many places where a secret could stand is masked there without a look, and stays what it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.secrets.shapes import Fake, fakes
from tooltap.traces.recording.secrets import find_secrets, mask_lines, mask_secrets

FAKES = fakes(23)
ROOT = Path(__file__).parents[3]
CROWD = "token: " * 2_000
SECRET = next(fake.secret for fake in FAKES if fake.secret.startswith("ghp_"))


@pytest.mark.parametrize("fake", FAKES[::5], ids=lambda fake: fake.shape[:40])
def test_no_secret_hides_in_a_crowd(fake: Fake) -> None:
    text, secret = fake.text, fake.secret
    for crowd in (CROWD + text, f'{CROWD}" {text}', f"{text} {CROWD}"):
        for depth in range(3):
            line = crowd
            for _ in range(depth):
                line = json.dumps({"session": "s", "text": line, "n": 1})
            masked = mask_secrets(line.encode()).decode()
            assert secret not in masked
            assert depth == 0 or json.loads(masked).keys() == {"session", "text", "n"}


def test_what_is_beside_a_crowd_is_kept() -> None:
    line = json.dumps({"type": "user", "text": f"before {CROWD}", "next": ["kept", 12], "uuid": "u1"})

    masked = json.loads(mask_secrets(line.encode()))

    assert masked == {**json.loads(line), "text": masked["text"]}
    assert masked["text"].startswith("before token: ")
    assert masked["text"].endswith(" [masked crowded]")


def test_values_of_keys_are_masked_behind_a_crowd() -> None:
    line = json.dumps({"text": CROWD, "password": "letmein", "api_key": 1234567, "list": ["kept", SECRET]})

    masked = mask_secrets(line.encode())

    assert json.loads(masked)["list"] == ["kept", "[masked crowded]"]
    assert not any(one in masked for one in (b"letmein", b"1234567"))


def test_a_crowd_ends_no_escape() -> None:
    for piece in ("\\npassw", '\\"token: ', "é\npassw", "\\u0061passw", "\\", '"passw'):
        value = {"a": piece * 3_000, "b": [piece, 1], piece: "x"}
        for line in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps({"v": json.dumps(value)})):
            json.loads(mask_secrets(line.encode()))


def test_a_crowd_is_one_of_its_line() -> None:
    lines = [json.dumps({"text": text}).encode() for text in (CROWD, "password: str", CROWD, f"use {SECRET}")]

    masked = mask_lines(lines)

    assert masked == [mask_secrets(line) for line in lines]
    assert masked[1] is lines[1]
    assert b"use [masked github-token]" in masked[3]
    assert [span[2] for span in find_secrets(lines[0])] == ["crowded"]


def test_source_code_is_no_crowd() -> None:
    """These modules are as dense as any source code: fifty places in a kilobyte."""
    for path in (ROOT / "traces" / "recording").glob("*.py"):
        assert b"crowded]" not in mask_secrets(json.dumps({"text": path.read_text() * 5}).encode())
