"""Results of Vibe's effects: `output` is the tool's output, `outputText` the text for the model."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import error_words, status_word
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Display

_FAILED_COMMAND = re.compile(
    r"Command failed: .*?\nReturn code: (?P<code>-?\d+)(?:\nStderr: (?P<stderr>.*?))?(?:\nStdout: (?P<stdout>.*))?\Z",
    re.ASCII | re.DOTALL,
)
_RETURN_CODE = re.compile(r'^  "returncode": (-?\d+)', re.ASCII | re.MULTILINE)
"""Exit code in the excerpt of a long output. The output is the tool's JSON, indented."""


def read_state(name: str, state: dict[str, Any], entry_status: str) -> Answer:
    """The answer in an effect's `state`; `entry_status` is the `generationStatus` of the entry."""
    error, output = state.get("error"), _output(state)
    words = error_words(error)
    stated = [status_word(word) for word in (state.get("status"), entry_status)]
    status = next((one for one in stated if one not in (None, "completed", "failed")), None)
    if status is None:
        status = "failed" if "failed" in stated or words is not None else "completed"
    if record(error).get("code") == "tool_denied" or state.get("decision") == "skip":
        status = "denied"
    if status != "completed":
        words = words or string(state.get("outputText")) or None
        value = None
        if name == "Bash":
            value = _failed_command(words) if words else None
            if value is None and isinstance(output, dict) and "stdout" in output:
                value = _shell(output)
        return Answer(value, status, words)
    display = record(state.get("display"))
    # A command that the shell could not run has ended, and printed why: only its display says that it failed.
    return Answer(
        _value(name, state), "failed" if display.get("success") is False else status, display=_display(display)
    )


def _output(state: dict[str, Any]) -> Any:
    """The tool's output; Vibe 3.0.3 wraps it like that of an MCP server."""
    output = state.get("output")
    content = record(output).get("structured_content")
    return content if isinstance(content, dict) else output


def _failed_command(words: str) -> dict[str, Any] | None:
    """The error text of Vibe's shell holds the exit code and both outputs."""
    match = _FAILED_COMMAND.match(words)
    if match is None:
        return None
    printed = {stream: match[stream] for stream in ("stdout", "stderr") if match[stream] is not None}
    return {**printed, "exit_code": int(match["code"])}


def _value(name: str, state: dict[str, Any]) -> Any:
    output, text = _output(state), string(state.get("outputText"))
    if output is None:
        return _excerpt(name, text) if text else None
    if not isinstance(output, dict):
        return output
    if name == "Bash":
        return _shell(output)
    if name == "Write":  # its content repeats that of the call
        return {key: item for key, item in output.items() if key != "content"}
    return output


def _excerpt(name: str, text: str) -> dict[str, Any]:
    """An output over 16 kB is saved to a file; a note has the path, the beginning and the end."""
    code = _RETURN_CODE.search(text) if name == "Bash" else None
    return {"message": text, "exit_code": int(code[1])} if code else {"message": text}


def _shell(output: dict[str, Any]) -> dict[str, Any]:
    value = {key: item for key, item in output.items() if key != "output" or item}
    code = next((output[key] for key in ("returncode", "exitCode") if whole(output.get(key)) is not None), None)
    return value if code is None else {**value, "exit_code": code}


def _display(display: dict[str, Any]) -> Display | None:
    """One line for the user: `Read 15 lines from src/app.py`."""
    parts = [part for part in (string(display.get(key)) for key in ("verb", "message", "suffix")) if part]
    return Display(origin="provider", text=" ".join(parts)) if parts else None
