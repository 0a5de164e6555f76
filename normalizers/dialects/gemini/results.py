"""What a tool of Gemini CLI answered, whichever of its two sides is on the wire.

A tool has an answer for the model (a `functionResponse`) and one for the user (`resultDisplay`). Saved chats hold both;
the stream prints the user's, where that is a string, and the model's only where it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.dialects.gemini.parts import text_of
from tooltap.normalizers.dialects.gemini.texts import read_shown_shell, read_text, unwrap
from tooltap.normalizers.tools import PAYLOAD_RULES
from tooltap.protocol.events import Display

__all__ = ["mcp_name", "name_in_id", "read_call", "read_response", "read_shown"]

# -- names ------------------------------------------------------------------------------------------------------------

_TITLE = re.compile(r"(?P<tool>\S+) \((?P<server>[^()]+) MCP Server\)")
_IN_ID = re.compile(r"(?P<name>[A-Za-z][\w.]*?)(?:__(?P=name)_\d|-\d{12,})", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^\w.-]")


def name_in_id(call_id: str) -> str | None:
    """The tool's raw name: ids are `read_file__read_file_1795293911268_0`, in 2025 `read_file-1700000000000-0123ab`."""
    found = _IN_ID.match(call_id)
    return found["name"] if found else None


def mcp_name(raw_name: str, title: str | None, servers: Iterable[str]) -> str | None:
    """`mcp__<server>__<tool>`, where the title says whose tool it is, or the name begins with a known server's.

    The model calls the tool `mcp_<server>_<tool>` (0.61); before, by its bare name, or `<server>__<tool>` where two
    servers had one.
    """
    if title is not None and (found := _TITLE.fullmatch(title)):
        return f"mcp__{found['server']}__{found['tool']}"
    for server in sorted(servers, key=len, reverse=True):
        spelling = _NOT_IN_NAMES.sub("_", server)
        for prefix in (f"mcp_{spelling}_", f"{spelling}__"):
            if raw_name.startswith(prefix) and raw_name != prefix:
                return f"mcp__{server}__{raw_name.removeprefix(prefix)}"
    return None


# -- how it ended -----------------------------------------------------------------------------------------------------

_STATUS = {"success": "completed", "error": "failed", "cancelled": "cancelled"}
_REFUSED = re.compile(
    r"(?:\[Operation Cancelled\] (?:Reason: )?)?"
    r"(?:User denied execution|User did not allow tool call|Tool execution blocked: "
    r"|Tool execution (?:for \".*\" )?(?:denied by policy|requires user confirmation))"
)
"""By a person, a hook or a policy (`scheduler.ts`, `policy.ts`, `coreToolHookTriggers.ts`)."""


def _status(stated: Any, error: str | None) -> str:
    status = _STATUS.get(str(stated)) or ("failed" if error else "completed")
    return "denied" if status != "completed" and error is not None and _REFUSED.match(error) else status


# -- the user's side --------------------------------------------------------------------------------------------------


def read_shown(name: str, result: dict[str, Any]) -> Answer:
    """The answer in a `tool_result` line: `output` is what the user saw, `error.message` what the model was told."""
    shown = result.get("output")
    shown = shown if isinstance(shown, str) else None
    error = result.get("error")
    words = error.get("message") if isinstance(error, dict) else None
    if result.get("status") != "error" and not isinstance(words, str):
        return _read_shown_text(name, shown)
    if isinstance(words, str):
        return Answer(status=_status("error", words), error=words, display=_display(shown, words))
    return Answer(status=_status("error", shown), error=shown, assistant_view="unknown")


def _read_shown_text(name: str, shown: str | None) -> Answer:
    """What the user saw is the tool's output for a shell and for tools with text of their own; the other tools show a
    sentence about it (`Found 2 matching file(s)`)."""
    answer = Answer()
    if shown is not None and name == "Bash":
        answer = read_shown_shell(shown)
    elif shown:
        answer = Answer({"message": shown} if name in PAYLOAD_RULES else shown)
    return answer._replace(assistant_view="unknown")


# -- the model's side -------------------------------------------------------------------------------------------------


def read_call(name: str, call: dict[str, Any]) -> Answer:
    """The answer in an entry of `toolCalls`: `result` is what the model was given, `resultDisplay` what was shown."""
    shown = call.get("resultDisplay")
    result = call.get("result")
    if not result:
        text = shown if isinstance(shown, str) else None
        status = _status(call.get("status"), text)
        if status == "completed":
            return _read_shown_text(name, text)
        return Answer(status=status, error=text, assistant_view="unknown")
    return read_response(name, result, call.get("status"), shown)


def read_response(name: str, result: Any, status: Any = None, shown: Any = None) -> Answer:
    """The answer in parts of which one is a `functionResponse`."""
    response = _response(result)
    error = response.get("error")
    error = error if isinstance(error, str) else None
    output = response.get("output")
    text = unwrap(output) if isinstance(output, str) else None
    stated = _status(status, error)
    if text is None:
        rest = output if output is not None else {key: item for key, item in response.items() if key != "error"}
        answer = Answer(rest or None)
    elif stated == "completed" or name == "Bash":
        answer = read_text(name, text, error)
    else:  # words about what went wrong, not what the tool is there for
        answer = Answer({"message": text} if text and text != error else None)
    if stated != "completed":
        answer = answer._replace(status=stated, error=error or answer.error or text)
    told = answer.error if answer.status != "completed" else _printed(answer.value, text)
    return answer._replace(display=_display(shown, told or ""))


def _printed(value: Any, text: str | None) -> str | None:
    return value["stdout"] if isinstance(value, dict) and isinstance(value.get("stdout"), str) else text


def _response(result: Any) -> dict[str, Any]:
    """Of a list of parts, of one part, or of bare text."""
    for part in result if isinstance(result, list) else [result]:
        if isinstance(part, dict):
            answer = part.get("functionResponse")
            response = answer.get("response") if isinstance(answer, dict) else None
            if isinstance(response, dict):
                return response
    return {"output": text_of(result)}


def _display(shown: Any, text: str) -> Display | None:
    """What the user saw, where it is something else than `text`. A change is shown as its diff, a listing summed up."""
    if isinstance(shown, str):
        return Display(origin="provider", text=shown) if shown.strip() not in ("", text.strip()) else None
    if isinstance(shown, dict) and isinstance(shown.get("fileDiff"), str):
        return Display(origin="provider", text=shown["fileDiff"], mime_type="text/x-diff")
    if isinstance(shown, dict) and isinstance(shown.get("summary"), str):
        return Display(origin="provider", text=shown["summary"])
    return None
