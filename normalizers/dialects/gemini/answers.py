"""Results of Gemini CLI's tools, from the model's or the user's version, whichever is on the wire.

A tool has an answer for the model (a `functionResponse`) and one for the user (`resultDisplay`). Saved chats hold both;
the stream prints the user's, where that is a string, and the model's only where it is an error. The answers are prose:
a shell's is `Output: …` followed by `Exit Code: 3`, a listing has a heading, a web search its sources at the end.

Learned from 0.61 and from saved chats of 2025. Forms known only from the CLI's source have its file name
(google-gemini/gemini-cli, `packages/core/src`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import error_words, is_no_content, stated_status, status_in_words, status_word
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Display

_TITLE = re.compile(r"(?P<tool>\S+) \((?P<server>[^()]+) MCP Server\)")
_MCP_FAILED = re.compile(r"MCP tool '(?P<tool>[^']+)' reported tool error")
MANY_SERVERS = 64
_IN_ID = re.compile(r"(?P<name>[A-Za-z][\w.]{0,127}?)(?:__(?P=name)_\d|-\d{12,})", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^\w.-]")


# -- parts and names ---------------------------------------------------------------------------------------------------


def parts_of(content: Any) -> list[dict[str, Any]]:
    """The parts of a message (`PartListUnion`): a string, one part, or a list of both."""
    parts = content if type(content) is list else [content]
    return [part if type(part) is dict else {"text": part} for part in parts if type(part) is dict or type(part) is str]


def text_of(content: Any) -> str:
    """The text of the parts, without thoughts."""
    if type(content) is str:
        return content
    texts: list[str] = []
    for part in content if type(content) is list else (content,):
        if type(part) is str:
            texts.append(part)
        elif type(part) is dict and type(text := part.get("text")) is str and part.get("thought") is not True:
            texts.append(text)
    return "".join(texts)


def name_in_id(call_id: str) -> str | None:
    """The tool's raw name: ids are `read_file__read_file_1795293911268_0`, in 2025 `read_file-1700000000000-0123ab`."""
    found = _IN_ID.match(call_id)
    return found["name"] if found else None


def mcp_name(raw_name: str, title: str | None, servers: Collection[str]) -> str | None:
    """`mcp__<server>__<tool>`, where the title names the server, or the raw name begins with a known one.

    The model calls the tool `mcp_<server>_<tool>` (0.61); before, by its bare name, or `<server>__<tool>` where two
    servers had one.
    """
    if title is not None and title.endswith(" MCP Server)") and (found := _TITLE.fullmatch(title)):
        return f"mcp__{found['server']}__{found['tool']}"
    if not servers:
        return None
    for server in sorted(servers, key=len, reverse=True):
        spelling = _NOT_IN_NAMES.sub("_", server)
        for prefix in (f"mcp_{spelling}_", f"{spelling}__"):
            if raw_name.startswith(prefix) and raw_name != prefix:
                return f"mcp__{server}__{raw_name.removeprefix(prefix)}"
    return None


def learn_server(servers: list[str], name: str | None) -> None:
    """Remember the server of a tool `mcp__<server>__<tool>`, for calls that do not name it."""
    if name is not None and (server := name.removeprefix("mcp__").partition("__")[0]) not in servers:
        servers.append(server)
        del servers[:-MANY_SERVERS]


def mcp_name_in_error(raw_name: str, answered: dict[str, Any]) -> str | None:
    """The canonical name of an MCP tool whose failure names the tool alone: the server is the rest of the raw name."""
    words = error_words(answered.get("error"))
    found = _MCP_FAILED.match(words) if words is not None else None
    if found is None:
        return None
    server = raw_name.removeprefix("mcp_").removesuffix(f"_{found['tool']}")
    return f"mcp__{server}__{found['tool']}" if raw_name == f"mcp_{server}_{found['tool']}" and server else None


# -- the user's side --------------------------------------------------------------------------------------------------


def read_shown(name: str, result: dict[str, Any]) -> Answer:
    """Read a `tool_result` line: `output` is the text for the user, `error.message` that for the model."""
    shown = string(result.get("output"))
    words = error_words(result.get("error"))
    if words is not None:
        return Answer(status=_status("error", words), error=words, display=_display(shown, words), model=words)
    return _read_shown_text(name, status_word(result.get("status")) or "completed", shown)


def _read_shown_text(name: str, stated: Any, shown: str | None) -> Answer:
    """Read the text shown to the user. For a shell and for unknown tools, it is the output; canonical tools show a
    sentence about it (`Found 2 matching file(s)`)."""
    status = _status(stated, shown)
    if status != "completed":
        answer = Answer(status=status, error=shown)
    elif shown is not None and name == "Bash":
        answer = read_shown_shell(shown)
    else:
        answer = Answer(({"message": shown} if name in CANONICAL_TOOLS else shown) if shown else None)
    return answer


# -- the model's side -------------------------------------------------------------------------------------------------


def read_call(name: str, call: dict[str, Any]) -> Answer:
    """Read an entry of `toolCalls`: `result` is the version for the model, `resultDisplay` that for the user."""
    shown, result, status = call.get("resultDisplay"), call.get("result"), call.get("status")
    if status_word(status) == "completed" and type(shown) is dict:
        # The call of a subagent that failed or was stopped succeeds; what the user saw of it has the state.
        state = shown.get("state")
        status = state if status_word(state) in ("cancelled", "failed") else status
    if not result:
        return _read_shown_text(name, status, string(shown))
    answer, agent = read_response(name, result, status, shown), string(call.get("agentId"))
    if agent is None:
        return answer
    value = {"content": answer.value} if isinstance(answer.value, str) else answer.value
    return answer.replace(value={**record(value), "agentId": agent})  # the session of the subagent's own chat


def read_response(name: str, result: Any, stated: Any = None, shown: Any = None) -> Answer:
    """Read parts of which one is a `functionResponse`."""
    response = _response(result)
    error, output = error_words(response.get("error")), response.get("output")
    text = unwrap(output) if isinstance(output, str) else None
    status = _status(stated, error)
    if text is None:
        rest = output if output is not None else {key: item for key, item in response.items() if key != "error"}
        answer = Answer(rest or None)
        status = (stated_status(rest) or status) if status == "completed" else status
    elif status == "completed" or name == "Bash":
        answer = read_text(name, text, error)
    else:  # words about what went wrong, not the tool's output
        answer = Answer({"message": text} if text and text != error else None)
    if status != "completed":
        answer = answer.replace(status=status, error=error or answer.error or text)
    printed = record(answer.value).get("stdout")
    known = answer.error if answer.status != "completed" else printed if isinstance(printed, str) else text
    return answer.replace(display=_display(shown, known or ""), model=_seen_by_model(result, response))


def _seen_by_model(result: Any, response: dict[str, Any]) -> Any:
    """The text that the model got, and the pictures beside it."""
    texts = [text for text in response.values() if isinstance(text, str)]
    text = texts[0] if len(response) == len(texts) == 1 else None
    pictures = [part["inlineData"] for part in parts_of(result) if type(part.get("inlineData")) is dict]
    if text is not None and not pictures:
        return text
    first = {"type": "text", "text": text} if text is not None else response
    return [first, *({"type": "inlineData", **picture} for picture in pictures)]


def _response(result: Any) -> dict[str, Any]:
    """The response in a list of parts, one part, or bare text."""
    for part in result if type(result) is list else [result]:
        if type(part) is dict and type(response := record(part.get("functionResponse")).get("response")) is dict:
            return response
    return {"output": text_of(result)}


def _status(stated: Any, error: str | None) -> str:
    status = status_word(stated) or ("failed" if error else "completed")
    return status if status == "completed" else status_in_words(error, "gemini") or status


def _display(shown: Any, text: str) -> Display | None:
    """The text shown to the user, where it differs from `text`: the diff of a change, the summary of a listing."""
    if isinstance(shown, str):
        return Display(origin="provider", text=shown) if shown.strip() not in ("", text.strip()) else None
    if type(shown) is not dict:
        return None
    diff, summary = string(shown.get("fileDiff")), string(shown.get("summary"))
    if diff is not None:
        return Display(origin="provider", text=diff, mime_type="text/x-diff")
    return Display(origin="provider", text=summary) if summary is not None else None


_HOOK_NOTE = "\n\n[System] Tool input parameters were modified by a hook before execution."


def unwrap(text: str) -> str:
    """Strip the tags around text from outside (shell and MCP tools, 0.61), and the notes to the model that hooks append
    (`tool-executor.ts`)."""
    text = text.removesuffix(_HOOK_NOTE)
    if text.endswith("</hook_context>"):
        text = text[: text.rfind("\n\n<hook_context>")]
    return text.replace("<untrusted_context>\n", "").replace("\n</untrusted_context>", "")


def read_text(name: str, text: str, error: str | None = None) -> Answer:
    """Read the model's text of the canonical tool `name`. `error`: the error stated beside the text."""
    if name == "Bash":
        return read_outcome(text) or _read_shell(text, error)
    return _READERS.get(name, Answer)(text)


# -- shell -------------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r"(?P<command>Command: .*?\nDirectory: [^\n]*\n)?(?P<stream>Output|Stdout): ", re.DOTALL)
"""Beginning of a shell's text. It has `Command` and `Directory` until 2025, and `Stdout` and `Stderr` before the CLI
merged the streams."""
_TAIL = ("Exit Code", "Signal", "Background PIDs", "Process Group PGID")
_NOTHING = ("(empty)", "(none)", "")
_IN_BACKGROUND = re.compile(r"Command (?:moved to|is running in) background \(PID: (\d+)\)[^\n]*", re.ASCII)
_STOPPED = re.compile(
    r"(Command (?:was )?(?:automatically )?cancelled [^\n]*?\.)"
    r"(?:(?: Below is the output before it was cancelled:|\n\nOutput before cancellation:)\n(?P<output>.*)"
    r"| There was no output before it was cancelled\.)?",
    re.DOTALL,
)
_BLOCKED = re.compile(
    r"Command injection detected: [^\n]{1,400} the command was blocked\."
    r"|Blocked: command substitution detected in shell command\."
)
"""What the model and the user get of a command that `shell.ts` (0.61) does not run, without a flag beside it."""
_SHOWN_EXIT = re.compile(r"Command exited with code: (-?\d+)", re.ASCII)
_SHOWN_SIGNAL = re.compile(r"Command terminated by signal: \S+")


def _read_shell(text: str, error: str | None) -> Answer:
    body, fields = _split_tail(text)
    payload: dict[str, Any] = {}
    head = _HEAD.match(body)
    if head is not None:  # otherwise a summary, or the shortened text of a long output
        body = body[head.end() :]
        rest, words = _split_section(body, "\nError: ")
        if head["command"] or words == error:  # anything else is the command's own output
            body, error = rest, error or words
        if head["stream"] == "Stdout":
            body, payload["stderr"] = _split_section(body, "\nStderr: ")
    payload["stdout"] = "" if body in _NOTHING else body
    code = fields.get("Exit Code", "")
    if code.removeprefix("-").isdecimal():
        payload["exit_code"] = int(code)
        if payload["exit_code"] != 0:
            error = error or f"Exit Code: {code}"
    signal = fields.get("Signal")
    if signal is None or signal == "0" or signal in _NOTHING:
        payload["signal"] = None
        return Answer(payload, error=error)
    payload["signal"] = signal
    return Answer(payload, "failed", error or f"Signal: {signal}")


def _split_tail(text: str) -> tuple[str, dict[str, str]]:
    """Split the last lines, which say how the command ended, from the text before them."""
    fields: dict[str, str] = {}
    while True:
        before, newline, last = text.rpartition("\n")
        key, _, value = last.partition(": ")
        if not newline or key not in _TAIL or key in fields:
            return text, fields
        fields[key] = value
        text = before


def _split_section(text: str, heading: str) -> tuple[str, str | None]:
    """Split the last section of this heading, if any, from the text before it."""
    before, found, words = text.rpartition(heading)
    return (before, None if words in _NOTHING else words) if found else (text, None)


def read_shown_shell(text: str) -> Answer:
    """Read the user's text of a shell command: its output, or if it printed nothing, how it failed (`shell.ts`)."""
    if outcome := read_outcome(text):
        return outcome
    if code := _SHOWN_EXIT.fullmatch(text):
        return Answer({"stdout": "", "exit_code": int(code[1])}, error=text)
    if _SHOWN_SIGNAL.fullmatch(text):
        return Answer({"stdout": ""}, "failed", text)
    return Answer({"stdout": text})


def read_outcome(text: str) -> Answer | None:
    """Read that a command continues in the background, was stopped, or was not run (`shell.ts`)."""
    if _BLOCKED.fullmatch(text):
        return Answer(None, "denied", text)
    if started := _IN_BACKGROUND.fullmatch(text):
        return Answer({"message": text, "pid": int(started[1])}, is_async=True)
    if stopped := _STOPPED.fullmatch(text):
        output = stopped["output"]
        return Answer({"stdout": output} if output else None, "cancelled", stopped[1])
    return None


# -- files, search, web, subagents ------------------------------------------------------------------------------------

_CUT_FILE = re.compile(
    r"\s*IMPORTANT: The file content has been truncated\.\nStatus: Showing lines (\d+)-(\d+) of (\d+) total lines\.\n"
    r".*?\n--- FILE CONTENT \(truncated\) ---\n(.*)",
    re.DOTALL | re.ASCII,
)
_LISTING = re.compile(r"Directory listing for [^\n]*:\n")
_IGNORED = re.compile(r"\(\d+ [^)]*ignored\)")
_EMPTY_DIRECTORY = re.compile(r"Directory .* is empty\.")
_SIZE = re.compile(r" \(\d+ bytes\)$", re.ASCII)
_DIRECTORY = "[DIR] "
_WEB_HEADING = re.compile(r"Web search results for [^\n]*:\n\n")
_NOTHING_ON_WEB = "No search results or information found for query"
_SOURCE = re.compile(r"\[\d+\] (.*) \((\S+)\)")
_SUBAGENT = re.compile(r"Subagent '[^'\n]*' finished\.\nTermination Reason: (\S+)\nResult:\n(.*)", re.DOTALL)
_SUBAGENT_FAILED = re.compile(r"Subagent '[^'\n]*' failed\. Error: (.*)", re.DOTALL)


def _read_file(text: str) -> Answer:
    """Read a file's text. A long file arrives in parts (`read-file.ts`)."""
    if is_no_content(text):
        return Answer({"message": text})
    cut = _CUT_FILE.fullmatch(text)
    if cut is None:
        return Answer(text)
    first, last, total = (int(cut[group]) for group in (1, 2, 3))
    return Answer({"file": {"content": cut[4], "startLine": first, "numLines": last - first + 1, "totalLines": total}})


def _read_listing(text: str) -> Answer:
    if _EMPTY_DIRECTORY.fullmatch(text):
        return Answer({"entries": []})
    heading = _LISTING.match(text)
    if heading is None:
        return Answer(text)
    listed, gap, note = text[heading.end() :].rpartition("\n\n")
    if not gap or _IGNORED.fullmatch(note) is None:
        listed, note = text[heading.end() :], ""
    entries = [
        f"{line.removeprefix(_DIRECTORY)}/" if line.startswith(_DIRECTORY) else _SIZE.sub("", line)
        for line in filter(None, listed.split("\n"))
    ]
    return Answer({"entries": entries, "text": text} if note else {"entries": entries})


def _read_search(text: str) -> Answer:
    if text.startswith(_NOTHING_ON_WEB):
        return Answer({"results": []})
    found, _, last = text.rpartition("\n\nSources:\n")
    sources = [source for source in map(_SOURCE.fullmatch, last.split("\n")) if source]
    results = [{"title": source[1], "url": source[2]} for source in sources]
    summary = found if results else text
    if heading := _WEB_HEADING.match(summary):
        summary = summary[heading.end() :]
    return Answer({"results": [*results, {"snippet": summary}]})


def _read_subagent(text: str) -> Answer:
    """Read a subagent's result (`local-invocation.ts`). Only its text states a failure, as the call itself succeeds."""
    if failed := _SUBAGENT_FAILED.fullmatch(text):
        return Answer(None, "failed", failed[1])
    if finished := _SUBAGENT.fullmatch(text):
        return Answer({"content": finished[2], "terminationReason": finished[1]})
    return Answer(text)


_READERS: dict[str, Callable[[str], Answer]] = {
    "LS": _read_listing,
    "Read": _read_file,
    "Task": _read_subagent,
    "WebSearch": _read_search,
}
