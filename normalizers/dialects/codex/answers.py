"""Results of Codex's tools, parsed from the text for the model.

How that text states an exit code changed with nearly every generation of the shell tool: JSON (`shell`, to 0.58), `Exit
code:` (`shell_command`, 0.63 to 0.79; `apply_patch` since 0.142), `Process exited with code` (`exec_command`, since
0.114). All of them report in prose a call that was refused or could not run. Newer versions send lists of content
parts, and the first part may be such a header alone.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import UNSET

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.codex.items import duration_of
from tooltap.normalizers.tools.outcome import stated_status, status_in_words, status_word
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import first_string, record, records, string
from tooltap.protocol.events import Display

_HEADER = re.compile(
    r"(?:(?:Chunk ID: \S*|Original token count: \d+|Total output lines: \d+"
    r"|Script (?:running with cell ID (?P<cell>\S+)|(?P<script>\w+))"
    r"|Wall time:? (?P<seconds>[\d.]+) seconds"
    r"|(?:Exit code:|Process exited with code) (?P<code>-?\d+)"
    r"|Process running with session ID (?P<session>\S+))\n)+"
    r"Output:(?:\n|\Z)"
)

_FAILED = re.compile(
    r"exec_command failed(?: for|:)|write_stdin failed|execution error: |apply_patch verification failed"
    r"|unsupported call: |failed to parse function arguments|unable to locate image at|\w+ is unavailable in \w+ mode"
)
"""First words of texts that state a failure instead of output (Codex 0.46 to 0.169)."""
_MCP_KEYS = {"is_error": "isError", "structured_content": "structuredContent"}
"""Key in `codex exec` -> MCP's key."""
_REJECTED = re.compile(r'CreateProcess ?{ ?(?:message: ")?Rejected\(')
"""Text after the command, where it was not started (0.120)."""


def read_answer(output: Any) -> Answer:
    """Read the answer in `function_call_output.output`: text, content parts, or `{content, success}`.

    `is_async` is set if the text names a session in which the command continues."""
    if isinstance(output, str):
        decoded = decode_json(output)
        return _read_text(output) if isinstance(decoded, str) else _read_decoded(decoded)
    if isinstance(output, dict) and "success" in output:
        answer = read_answer(output.get("content"))
        failed = output["success"] is False and answer.status == "completed"
        return answer.replace(status="failed") if failed else answer
    return _read_decoded(output)


def model_output(output: Any) -> Any:
    """Text or content parts that the model gets of `function_call_output.output`; UNSET where it has none."""
    if isinstance(output, dict) and "content" in output:
        output = output["content"]
    return output if isinstance(output, str | list) else UNSET


def process_of(output: Any) -> str | None:
    """Return the id under which a command, or a script of code mode, continues in the background; None if it has
    ended."""
    header = _header_of(output)
    return None if header is None else header["session"] or header["cell"]


def end_of_process(output: Any) -> Answer | None:
    """Return the answer of a background process that the output of `write_stdin` or `wait` states to have ended; None
    for any other output."""
    header = _header_of(output)
    if header is None or header["session"] or header["cell"]:
        return None
    if (code := header["code"]) is not None:
        value = {"exit_code": int(code)}
        return Answer(value, stated_status(value) or "completed")
    return Answer(None, status_word(header["script"]) or "completed") if header["script"] else None


def _header_of(output: Any) -> re.Match[str] | None:
    if isinstance(output, list) and output and isinstance(output[0], dict):
        output = output[0].get("text")
    return _HEADER.match(output) if isinstance(output, str) else None


def _read_text(text: str) -> Answer:
    if header := _HEADER.match(text):
        rest, code = text[header.end() :], header["code"]
        value = rest if code is None else {"stdout": rest, "exit_code": int(code)}
        duration, is_async = _milliseconds(header["seconds"]), bool(header["session"] or header["cell"])
        return Answer(value, _status_of(header), duration_ms=duration, is_async=is_async)
    if text.startswith("failed in sandbox "):
        return _read_sandbox(text)
    if (status := status_in_words(text, "codex", flagged=False)) is not None:
        return Answer(None, status, text)
    if _FAILED.match(text):
        return Answer(None, "denied" if _REJECTED.search(text) else "failed", text)
    return Answer(text)


def _status_of(header: re.Match[str]) -> str:
    code = header["code"]
    return stated_status({"exit_code": code and int(code), "status": header["script"]}) or "completed"


def _read_sandbox(text: str) -> Answer:
    """Parse `failed in sandbox X with execution error: …, exit code: N, stdout: …, stderr: …` (Codex to 0.58)."""
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
        status = stated_status(metadata) or "completed"
        return Answer({"stdout": value["output"], "exit_code": metadata.get("exit_code")}, status, duration_ms=duration)
    return Answer(value)


def _read_parts(parts: list[Any]) -> Answer:
    whole = Answer()
    first = parts[0].get("text") if parts and isinstance(parts[0], dict) else None
    if isinstance(first, str) and _HEADER.fullmatch(first):
        whole = _read_text(first)
        parts = parts[1:]
    blocks = [{**part, "type": "text"} if _is_text(part) else part for part in parts]
    if len(blocks) == 1 and _is_text(blocks[0]):
        only = _read_text(blocks[0]["text"])
        if only.error is not None:
            return only.replace(duration_ms=whole.duration_ms)
    return whole.replace(value={"content": blocks})


def _is_text(part: Any) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("text"), str):
        return False
    return part.get("type") in ("input_text", "output_text", "text")


def _milliseconds(seconds: str | float | None) -> int | None:
    return None if seconds is None else round(float(seconds) * 1000)


def patch_answer(answer: Answer) -> Answer:
    """The answer of `apply_patch`, which states an exit code like a command's."""
    value = answer.value
    if not isinstance(value, dict) or not isinstance(value.get("exit_code"), int):
        return answer
    if value["exit_code"] == 0:
        return answer.replace(value={**value, "success": True})
    failed = {"exit_code": value["exit_code"], "success": False}
    return answer.replace(value=failed, status="failed", error=first_string(value, "stdout"))


def mcp_answer(msg: Line) -> Answer:
    """Read an MCP tool's answer from the event that ends its call."""
    result = record(msg.get("result"))
    value = record(result.get("Ok")) or ({} if "Err" in result else result)
    error = first_string(result, "Err") or first_string(record(msg.get("error")), "message")
    error = error or first_string(msg, "error")
    status = stated_status(msg) or "completed"
    if status == "completed" and (error is not None or value.get("isError") is True):
        status = "failed"
    if status == "failed":
        error = error or blocks_text(value.get("content"))
        said = read_answer(error).status
        status = status if said == "completed" else said
    value, display = by_structure(_mcp_result(value))
    return Answer(value, status, error, duration_of(msg), display)


def _mcp_result(result: Line) -> Line:
    """Convert an MCP tool's result to MCP's own keys, without empty ones: `codex exec` uses snake case, and the
    app-server states every absent key as null."""
    named = {_MCP_KEYS.get(key, key): value for key, value in result.items() if value is not None}
    return {key: value for key, value in named.items() if (key, value) != ("isError", False)}


def dynamic_answer(msg: Line) -> Answer:
    """The answer of a client's own tool, in the event of the call's end."""
    parts = msg.get("content_items")
    value = {"content": parts} if isinstance(parts, list) else msg.get("result")
    return Answer(value, (stated_status(msg) or "completed"), first_string(msg, "error"), duration_of(msg))


_STRUCTURED = ("structuredContent", "structured_content")


def by_structure(answer: dict[str, Any]) -> tuple[dict[str, Any], Display | None]:
    """Split an MCP server's answer as Codex does: its model gets only `structuredContent`, if there is any
    (`FunctionCallOutputPayload` in its `protocol/src/models.rs`)."""
    structured = next((answer[key] for key in _STRUCTURED if answer.get(key) is not None), None)
    text = blocks_text(answer.get("content"))
    if structured is None or text is None or decode_json(text) == structured:
        return answer, None
    rest = {key: item for key, item in answer.items() if key != "content"}
    return rest, Display(origin="provider", text=text)


def printed(event: dict[str, Any]) -> Display | None:
    """The full output of a Codex command (`aggregated_output`), if the model got a shortened one
    (`formatted_output`)."""
    for_model, full = string(event.get("formatted_output")), string(event.get("aggregated_output"))
    if not for_model or full is None or for_model.strip() == full.strip():
        return None
    return Display(origin="provider", text=full)


# -- subagents ----------------------------------------------------------------------------------------------------

_STATES = ("agents_states", "statuses", "agent_statuses", "status")
"""Keys under which a result states how agents are: thread -> state, or a list of objects with `thread_id`."""
_AGENT_ENDS = {"completed": "completed", "errored": "failed", "shutdown": "cancelled"}
"""State of a subagent that has ended -> status. `interrupted` is none: the agent may get more to do."""


def agent_states(value: Any) -> dict[str, Any]:
    """Return the states of agents in a result: thread -> state. Forms of a state: `running`, `{"completed": text}`,
    `{"status": "completed", "message": text}`."""
    if not isinstance(value, dict):
        return {}
    for key in _STATES:
        stated = value.get(key)
        if isinstance(stated, list):
            stated = {one["thread_id"]: one.get("status") for one in records(stated) if "thread_id" in one}
        if isinstance(stated, dict) and stated:
            return {thread: state for thread, state in stated.items() if isinstance(thread, str)}
    thread = first_string(value, "new_thread_id", "agent_id")
    return {} if thread is None else {thread: value.get("status")}


def agent_end(state: Any, *, stopped: bool = False) -> Answer | None:
    """Return the answer of the call that started an agent; None if it has not ended. `stopped`: it is being closed."""
    word, message = state, None
    if isinstance(state, dict):
        word, message = next(iter(state.items()), (None, None))
        if "status" in state:
            word, message = state["status"], state.get("message")
    status = _AGENT_ENDS.get(word) if isinstance(word, str) else None
    if status is None:
        return Answer(None, "cancelled") if stopped else None
    text = message if isinstance(message, str) and message else None
    return Answer({"content": text} if text and status == "completed" else None, status, text)
