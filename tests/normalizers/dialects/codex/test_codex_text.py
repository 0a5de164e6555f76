"""The texts that Codex's model gets as the output of a tool, of every generation."""

from typing import Any

import pytest

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.dialects.codex.answers import read_answer


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (  # `shell`, to 0.58
            '{"output":"ok\\n","metadata":{"exit_code":0,"duration_seconds":0.2}}',
            Answer({"stdout": "ok\n", "exit_code": 0}, duration_ms=200),
        ),
        (  # `shell_command`, 0.63 to 0.79
            "Exit code: 3\nWall time: 1.5 seconds\nOutput:\nboom\n",
            Answer({"stdout": "boom\n", "exit_code": 3}, "failed", duration_ms=1500),
        ),
        (
            "Exit code: 1\nWall time: 1 seconds\nTotal output lines: 900\nOutput:\nx",
            Answer({"stdout": "x", "exit_code": 1}, "failed", duration_ms=1000),
        ),
        (  # `exec_command`, since 0.114
            "Chunk ID: 77\nWall time: 0.9097 seconds\nProcess exited with code -1\nOriginal token count: 4\nOutput:\n",
            Answer({"stdout": "", "exit_code": -1}, "failed", duration_ms=910),
        ),
        (
            "Chunk ID: e99c32\nWall time: 1.0006 seconds\nProcess running with session ID 92193\nOutput:\nbg 1\n",
            Answer("bg 1\n", is_async=True, duration_ms=1001),
        ),
        (  # code mode (0.169)
            [
                {"type": "input_text", "text": "Script failed\nWall time 0.1 seconds\nOutput:\n"},
                {"type": "input_text", "text": "boom"},
            ],
            Answer({"content": [{"type": "text", "text": "boom"}]}, "failed", duration_ms=100),
        ),
        (
            [{"type": "input_text", "text": "Script running with cell ID 3\nWall time 10.0 seconds\nOutput:\n"}],
            Answer({"content": []}, duration_ms=10_000, is_async=True),
        ),
        ([{"type": "input_text", "text": None}], Answer({"content": [{"type": "input_text", "text": None}]})),
        ("Plan updated", Answer("Plan updated")),
        ("Output:\nof a tool that begins like this", Answer("Output:\nof a tool that begins like this")),
        ("", Answer("")),
        ('{"answers":{"db":{"answers":["x"]}}}', Answer({"answers": {"db": {"answers": ["x"]}}})),
        ('{"broken', Answer('{"broken')),
        (None, Answer(None)),
    ],
)
def test_known_texts(output: Any, expected: Answer) -> None:
    assert read_answer(output) == expected


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("aborted by user after 3.9s", "cancelled"),
        ("Wall time: 3.6 seconds\naborted by user", "cancelled"),
        ("exec command rejected by user", "denied"),
        ("patch rejected by user", "denied"),
        ("user cancelled MCP tool call", "denied"),
        ("approval policy is Never; reject command — you cannot ask for escalated permissions", "denied"),
        ('exec_command failed for `a\nb`: CreateProcess { message: "Rejected(\\"no\\")" }', "denied"),
        ('exec_command failed for `a`: CreateProcess { message: "No such file" }', "failed"),
        ("execution error: No such file or directory (os error 2)", "failed"),
        ("apply_patch verification failed: Failed to find expected lines in /ws/a.py", "failed"),
        ("unsupported call: no_such_tool", "failed"),
        ("unable to locate image at `/ws/nope.png`: No such file", "failed"),
        ("request_user_input is unavailable in Default mode", "failed"),
    ],
)
def test_error_texts(text: str, status: str) -> None:
    assert read_answer(text) == Answer(None, status, text)


def test_sandbox_failure_has_output_and_error() -> None:
    text = (
        "failed in sandbox MacosSeatbelt with execution error: sandbox denied exec error, "
        "exit code: 1, stdout: a, b, stderr: /bin/ps: Operation not permitted\n"
    )

    assert read_answer(text) == Answer(
        {"stdout": "a, b", "stderr": "/bin/ps: Operation not permitted\n", "exit_code": 1},
        "failed",
        "failed in sandbox MacosSeatbelt with execution error: sandbox denied exec error",
    )
    assert read_answer("failed in sandbox X") == Answer(None, "failed", "failed in sandbox X")


def test_header_part_is_dropped() -> None:
    header = {"type": "input_text", "text": "Wall time: 0.0053 seconds\nOutput:"}
    image = {"type": "input_image", "image_url": "https://x/y.png"}

    assert read_answer([header, {"type": "input_text", "text": "echo: hi"}, image]) == Answer(
        {"content": [{"type": "text", "text": "echo: hi"}, image]}, duration_ms=5
    )
    assert read_answer('[{"type":"text","text":"hi"}]') == Answer({"content": [{"type": "text", "text": "hi"}]})
    words = "MCP tool call requires approval, but approval policy is never"
    assert read_answer([header, {"type": "input_text", "text": words}]) == Answer(None, "denied", words, duration_ms=5)


def test_success_flag_sets_status() -> None:
    assert read_answer({"content": "no", "success": False}) == Answer("no", "failed")
    assert read_answer({"content": "yes", "success": True}) == Answer("yes")


def test_hostile_text_is_read_in_linear_time() -> None:
    for text in ("Chunk ID: " * 200_000, "failed in sandbox " + ", exit code: 1, stdout: " * 100_000):
        assert read_answer(text).value in (text, None)
