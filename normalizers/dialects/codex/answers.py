"""What a Codex tool answered, read from the text that the model gets.

How that text states an exit code changed with nearly every generation of the shell tool: JSON (`shell`, to 0.58),
`Exit code:` (`shell_command`, 0.63 to 0.79; `apply_patch` since 0.142), `Process exited with code` (`exec_command`,
since 0.114). All of them report in plain words what was refused or could not run. Newer versions send lists of content
parts, and the first part may be such a header alone.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.tools.payload import decode_json

__all__ = ["read_answer"]

_HEADER = re.compile(
    r"(?:(?:Chunk ID: \S*|Script \w+|Original token count: \d+|Total output lines: \d+"
    r"|Wall time:? (?P<seconds>[\d.]+) seconds"
    r"|(?:Exit code:|Process exited with code) (?P<code>-?\d+)"
    r"|Process running with session ID (?P<session>\S+))\n)+"
    r"Output:(?:\n|\Z)"
)

_REFUSED = re.compile(
    r"(?P<cancelled>(?:Wall time:? [\d.]+ seconds\n)?aborted by user)"
    r"|(?P<denied>(?:exec command|patch) rejected by user|user (?:rejected|cancelled) MCP tool call"
    r"|approval policy is Never; reject command|MCP tool call requires approval, but"
    r'|exec_command failed for .*: CreateProcess { message: "Rejected\()'
    r"|(?P<failed>exec_command failed for|write_stdin failed|execution error: |apply_patch verification failed"
    r"|unsupported call: |failed to parse function arguments|unable to locate image at|\w+ is unavailable in \w+ mode)",
    re.DOTALL,
)
"""The first words of texts that are not output; the group is the status (Codex 0.46 to 0.169)."""


def read_answer(output: Any) -> Answer:
    """Read `function_call_output.output`: text, content parts, or `{content, success}`.

    `is_async`: the text names a session in which the command still runs."""
    if isinstance(output, str):
        decoded = decode_json(output)
        return _read_text(output) if isinstance(decoded, str) else _read_decoded(decoded)
    if isinstance(output, dict) and "success" in output:
        answer = read_answer(output.get("content"))
        failed = output["success"] is False and answer.status == "completed"
        return answer.replace(status="failed") if failed else answer
    return _read_decoded(output)


def _read_text(text: str) -> Answer:
    if header := _HEADER.match(text):
        rest, code = text[header.end() :], header["code"]
        value = rest if code is None else {"stdout": rest, "exit_code": int(code)}
        duration = _milliseconds(header["seconds"])
        return Answer(value, duration_ms=duration, is_async=header["session"] is not None)
    if text.startswith("failed in sandbox "):
        return _read_sandbox(text)
    if refused := _REFUSED.match(text):
        return Answer(None, str(refused.lastgroup), text)
    return Answer(text)


def _read_sandbox(text: str) -> Answer:
    """`failed in sandbox X with execution error: …, exit code: N, stdout: …, stderr: …` (Codex to 0.58)."""
    words, _, rest = text.partition(", exit code: ")
    code, _, rest = rest.partition(", stdout: ")
    stdout, separator, stderr = rest.partition(", stderr: ")
    if not separator or not re.fullmatch(r"-?\d+", code):
        return Answer(None, "failed", text)
    return Answer({"stdout": stdout, "stderr": stderr, "exit_code": int(code)}, "failed", words)


def _read_decoded(value: Any) -> Answer:
    if isinstance(value, list):
        return _read_parts(value)
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if isinstance(metadata, dict) and isinstance(value.get("output"), str):
        seconds = metadata.get("duration_seconds")
        duration = _milliseconds(seconds) if isinstance(seconds, int | float) else None
        return Answer({"stdout": value["output"], "exit_code": metadata.get("exit_code")}, duration_ms=duration)
    return Answer(value)


def _read_parts(parts: list[Any]) -> Answer:
    duration = None
    first = parts[0].get("text") if parts and isinstance(parts[0], dict) else None
    if isinstance(first, str) and (header := _HEADER.fullmatch(first)):
        duration = _milliseconds(header["seconds"])
        parts = parts[1:]
    blocks = [{**part, "type": "text"} if _is_text(part) else part for part in parts]
    if len(blocks) == 1 and _is_text(blocks[0]):
        only = _read_text(blocks[0]["text"])
        if only.error is not None:
            return only.replace(duration_ms=duration)
    return Answer({"content": blocks}, duration_ms=duration)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("input_text", "output_text", "text")


def _milliseconds(seconds: str | float | None) -> int | None:
    return None if seconds is None else round(float(seconds) * 1000)
