"""Results of agents' shell tools, in the text that Chat Completions carries.

The protocol has no field for an exit code or a failure; agents write them into the text for the model, each in its own
form: before the output, after it, or in an object.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.dialects.codex import answers as codex
from tooltap.normalizers.dialects.copilot import answers as copilot
from tooltap.normalizers.dialects.gemini import answers as gemini
from tooltap.normalizers.tools.outcome import stated_status
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import record

_HEAD = re.compile(
    r"(?:\[?Command (?:exited|failed) with (?:exit )?code:? (?P<command>-?\d+)\]?\.?"  # Cline 3.0.65
    r"|<system>ERROR: Command failed with exit code: (?P<system>-?\d+)\.?</system>"  # Kimi 1.40
    r"|Exit code:? (?P<exit>-?\d+))"  # Claude Code 2.1
    r"(?:\n|\Z)",
    re.ASCII,
)
"""First line that states only an exit code."""
_TAIL = re.compile(r"(?:\A|\n)(?:\n?Command exited with code (-?\d+)|\[?exit code: (-?\d+)\]?)\s*\Z", re.ASCII)
"""Last line that states only an exit code (Pi 0.73)."""
_CODES, _STREAMS = frozenset({"exit_code", "exitCode", "returncode"}), frozenset({"stdout", "output"})
_FLAGS = ("is_error", "isError", "success", "status")
"""Keys that some clients put beside the content (LangChain: `status`), or into it."""
_LONGEST_FLAGGED = 65_536
_LAST = 80
"""Length of the end of a text that is searched for such a line, in characters."""
_SECTIONS = ("Output: ", "Stdout: ")
_SECTIONS_END = re.compile(r"\n(?:Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*\Z")
"""End of a shell result of Gemini CLI and its descendants; `_SECTIONS` has its beginnings."""


def read_result(name: str, message: dict[str, Any]) -> Answer:
    """Read a tool's message: the answer of the canonical tool `name`."""
    content = message.get("content")
    answer = _read_content(name, content)
    status = stated_status({key: message[key] for key in _FLAGS if key in message}) or _flag_in(content)
    if status not in (None, "completed") and answer.status == "completed":
        words = answer.error or blocks_text(content)
        answer = answer.replace(status=status, error=words, value=answer.value if name == "Bash" else None)
    if isinstance(content, list):
        return answer.replace(model=[_block(one) for one in content])
    return answer.replace(model=content) if isinstance(content, str) else answer


def _block(one: Any) -> Any:
    """Return a content block with its picture's keys, which are nested in the block, on its top level."""
    picture = record(record(one).get("image_url"))
    return {"type": one.get("type"), **picture} if picture else one


def _flag_in(content: Any) -> str | None:
    """Status in a text that is a JSON object. Only flags count; a `status` could be something that the tool found."""
    if type(content) is not str or content[:1] != "{" or len(content) > _LONGEST_FLAGGED:
        return None
    given = record(decode_json(content))
    return stated_status({key: given[key] for key in _FLAGS[:-1] if key in given})


def _read_content(name: str, content: Any) -> Answer:
    if name not in ("Bash", "BashOutput"):
        return Answer(content)
    text = content if isinstance(content, str) else blocks_text(content)
    if not text:
        return Answer(content)
    given = decode_json(text) if text[0] in "{[" else text
    if isinstance(given, str):
        return _read_text(given)
    if isinstance(given, dict) and _states_shell(given):
        return Answer(given)
    answer = codex.read_answer(text)
    return answer if "stdout" in record(answer.value) and answer.value != given else Answer(content)


def _read_text(text: str) -> Answer:
    answer = codex.read_answer(text)
    if answer.error is not None or "exit_code" in record(answer.value):
        return answer.replace(is_async=False)
    sections = gemini.unwrap(text)
    if sections.startswith("Command: ") or (sections.startswith(_SECTIONS) and _SECTIONS_END.search(sections)):
        return gemini.read_text("Bash", sections)
    if shell := copilot.read_shell_text(text):  # Copilot CLI 1.0.102
        return shell
    if head := _HEAD.match(text):
        return _with_code(text[head.end() :], next(filter(None, head.groups())))
    if tail := _TAIL.search(text, max(0, len(text) - _LAST)):
        return _with_code(text[: tail.start()], next(filter(None, tail.groups())))
    return Answer(text)


def _states_shell(given: dict[str, Any]) -> bool:
    """Return whether an object is a shell's result, not a command's output: it has an exit code and an output."""
    return not (_CODES.isdisjoint(given) or _STREAMS.isdisjoint(given))


def _with_code(stdout: str, code: str) -> Answer:
    failure = None if code == "0" else f"exit code {code}"
    return Answer({"stdout": stdout, "exit_code": int(code)}, error=failure)
