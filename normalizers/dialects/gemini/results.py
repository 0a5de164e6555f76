"""Reads the results of Gemini CLI's tools, whichever of their two sides is on the wire.

A tool has an answer for the model (a `functionResponse`) and one for the user (`resultDisplay`). Saved chats hold both;
the stream prints the user's, where that is a string, and the model's only where it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.dialects.gemini.texts import read_shown_shell, read_text, text_of, unwrap
from tooltap.normalizers.tools import PAYLOAD_RULES
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Display

__all__ = ["mcp_name", "name_in_id", "read_call", "read_response", "read_shown"]

_TITLE = re.compile(r"(?P<tool>\S+) \((?P<server>[^()]+) MCP Server\)")
_IN_ID = re.compile(r"(?P<name>[A-Za-z][\w.]*?)(?:__(?P=name)_\d|-\d{12,})", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^\w.-]")
_STATUS = {"success": "completed", "error": "failed", "cancelled": "cancelled"}
_REFUSED = re.compile(
    r"(?:\[Operation Cancelled\] (?:Reason: )?)?"
    r"(?:User denied execution|User did not allow tool call|Tool execution blocked: "
    r"|Tool execution (?:for \".*\" )?(?:denied by policy|requires user confirmation))"
)
"""By a person, a hook or a policy (`scheduler.ts`, `policy.ts`, `coreToolHookTriggers.ts`)."""


# -- names ------------------------------------------------------------------------------------------------------------


def name_in_id(call_id: str) -> str | None:
    """The tool's raw name: ids are `read_file__read_file_1795293911268_0`, in 2025 `read_file-1700000000000-0123ab`."""
    found = _IN_ID.match(call_id)
    return found["name"] if found else None


def mcp_name(raw_name: str, title: str | None, servers: Iterable[str]) -> str | None:
    """`mcp__<server>__<tool>`, where the title names the server, or the raw name begins with a known one.

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


# -- the user's side --------------------------------------------------------------------------------------------------


def read_shown(name: str, result: dict[str, Any]) -> Answer:
    """Read a `tool_result` line: `output` is what the user saw, `error.message` what the model got."""
    shown = string(result.get("output"))
    words = string(record(result.get("error")).get("message"))
    if words is not None:
        return Answer(status=_status("error", words), error=words, display=_display(shown, words))
    return _read_shown_text(name, "error" if result.get("status") == "error" else "success", shown)


def _read_shown_text(name: str, stated: Any, shown: str | None) -> Answer:
    """What the user saw is the tool's output for a shell and for tools with text of their own; the other tools show a
    sentence about it (`Found 2 matching file(s)`)."""
    status = _status(stated, shown)
    if status != "completed":
        answer = Answer(status=status, error=shown)
    elif shown is not None and name == "Bash":
        answer = read_shown_shell(shown)
    else:
        answer = Answer(({"message": shown} if name in PAYLOAD_RULES else shown) if shown else None)
    return answer._replace(assistant_view="unknown")


# -- the model's side -------------------------------------------------------------------------------------------------


def read_call(name: str, call: dict[str, Any]) -> Answer:
    """Read an entry of `toolCalls`: `result` is what the model got, `resultDisplay` what the user saw."""
    shown, result, status = call.get("resultDisplay"), call.get("result"), call.get("status")
    return read_response(name, result, status, shown) if result else _read_shown_text(name, status, string(shown))


def read_response(name: str, result: Any, stated: Any = None, shown: Any = None) -> Answer:
    """Read parts of which one is a `functionResponse`."""
    response = _response(result)
    error, output = string(response.get("error")), response.get("output")
    text = unwrap(output) if isinstance(output, str) else None
    status = _status(stated, error)
    if text is None:
        rest = output if output is not None else {key: item for key, item in response.items() if key != "error"}
        answer = Answer(rest or None)
    elif status == "completed" or name == "Bash":
        answer = read_text(name, text, error)
    else:  # words about what went wrong, not the tool's output
        answer = Answer({"message": text} if text and text != error else None)
    if status != "completed":
        answer = answer._replace(status=status, error=error or answer.error or text)
    printed = record(answer.value).get("stdout")
    known = answer.error if answer.status != "completed" else printed if isinstance(printed, str) else text
    return answer._replace(display=_display(shown, known or ""))


def _response(result: Any) -> dict[str, Any]:
    """The response in a list of parts, one part, or bare text."""
    for part in result if isinstance(result, list) else [result]:
        response = record(record(part).get("functionResponse")).get("response")
        if isinstance(response, dict):
            return response
    return {"output": text_of(result)}


# -- both sides -------------------------------------------------------------------------------------------------------


def _status(stated: Any, error: str | None) -> str:
    status = _STATUS.get(str(stated)) or ("failed" if error else "completed")
    return "denied" if status != "completed" and error is not None and _REFUSED.match(error) else status


def _display(shown: Any, text: str) -> Display | None:
    """What the user saw, where it differs from `text`: a change is shown as its diff, a listing as a summary."""
    if isinstance(shown, str):
        return Display(origin="provider", text=shown) if shown.strip() not in ("", text.strip()) else None
    diff, summary = string(record(shown).get("fileDiff")), string(record(shown).get("summary"))
    if diff is not None:
        return Display(origin="provider", text=diff, mime_type="text/x-diff")
    return Display(origin="provider", text=summary) if summary is not None else None
