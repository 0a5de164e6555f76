"""Texts of Gemini CLI: the parts of a message, and the prose with which its tools answer.

A shell result is `Output: …` with `Exit Code: 3` behind it, a listing has a heading, a web search its sources at the
end. Learned from 0.61 and from saved chats of 2025; file names are of the CLI's source (google-gemini/gemini-cli,
`packages/core/src/tools`), where only that shows a form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.answer import Answer

__all__ = ["parts_of", "read_shown_shell", "read_text", "text_of", "unwrap"]


def parts_of(content: Any) -> list[dict[str, Any]]:
    """The parts of a message (`PartListUnion`): a string, one part, or a list of both."""
    parts = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else part for part in parts if isinstance(part, str | dict)]


def text_of(content: Any) -> str:
    """The text of the parts, without thoughts."""
    texts = [part.get("text") for part in parts_of(content) if part.get("thought") is not True]
    return "".join(text for text in texts if isinstance(text, str))


_TAGS = ("<untrusted_context>\n", "\n</untrusted_context>")
_HOOK_NOTE = "\n\n[System] Tool input parameters were modified by a hook before execution."


def unwrap(text: str) -> str:
    """Remove the tags that mark what came from outside (shell and MCP tools, 0.61), and the words for the model that
    follow a text where hooks are at work (`tool-executor.ts`)."""
    text = text.removesuffix(_HOOK_NOTE)
    if text.endswith("</hook_context>"):
        text = text[: text.rfind("\n\n<hook_context>")]
    for tag in _TAGS:
        text = text.replace(tag, "")
    return text


def read_text(name: str, text: str, error: str | None = None) -> Answer:
    """Read what the model got from the canonical tool `name`. `error`: the error it got beside the text."""
    return _read_shell(text, error) if name == "Bash" else _READERS.get(name, Answer)(text)


# -- shell ------------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r"(?P<command>Command: .*?\nDirectory: [^\n]*\n)?(?P<stream>Output|Stdout): ", re.DOTALL)
"""`Command` and `Directory` until 2025; `Stdout` and `Stderr` before the CLI merged the streams."""
_TAIL = ("Exit Code", "Signal", "Background PIDs", "Process Group PGID")
_NOTHING = ("(empty)", "(none)", "")
_IN_BACKGROUND = re.compile(r"Command (?:moved to|is running in) background \(PID: (\d+)\)[^\n]*", re.ASCII)
_STOPPED = re.compile(
    r"(Command (?:was )?(?:automatically )?cancelled [^\n]*?\.)"
    r"(?:(?: Below is the output before it was cancelled:|\n\nOutput before cancellation:)\n(?P<output>.*)"
    r"| There was no output before it was cancelled\.)?",
    re.DOTALL,
)
_SHOWN_EXIT = re.compile(r"Command exited with code: (-?\d+)", re.ASCII)
_SHOWN_SIGNAL = re.compile(r"Command terminated by signal: \S+")


def _read_shell(text: str, error: str | None) -> Answer:
    if outcome := _read_outcome(text):
        return outcome
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
    payload["signal"] = None if signal == "0" or signal in _NOTHING else signal
    return Answer(payload, error=error)


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
    """Read what the user saw of a shell command: its output, or if there was none, how it failed (`shell.ts`)."""
    if outcome := _read_outcome(text):
        return outcome
    if code := _SHOWN_EXIT.fullmatch(text):
        return Answer({"stdout": "", "exit_code": int(code[1])}, error=text)
    if _SHOWN_SIGNAL.fullmatch(text):
        return Answer({"stdout": ""}, "failed", text)
    return Answer({"stdout": text})


def _read_outcome(text: str) -> Answer | None:
    """Read that a command continues in the background, or was stopped (`shell.ts`)."""
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
_LISTING = re.compile(
    r"Directory listing for [^\n]*:\n(?P<entries>.*?)(?:\n\n(?P<note>\(\d+ [^)]*ignored\)))?", re.DOTALL
)
_EMPTY_DIRECTORY = re.compile(r"Directory .* is empty\.")
_SIZE = re.compile(r" \(\d+ bytes\)$", re.ASCII)
_DIRECTORY = "[DIR] "
_WEB_HEADING = re.compile(r"Web search results for [^\n]*:\n\n")
_NOTHING_ON_WEB = "No search results or information found for query"
_SOURCE = re.compile(r"\[\d+\] (.*) \((\S+)\)")
_SUBAGENT = re.compile(r"Subagent '[^'\n]*' finished\.\nTermination Reason: (\S+)\nResult:\n(.*)", re.DOTALL)
_SUBAGENT_FAILED = re.compile(r"Subagent '[^'\n]*' failed\. Error: (.*)", re.DOTALL)


def _read_file(text: str) -> Answer:
    """A long file comes in parts (`read-file.ts`)."""
    cut = _CUT_FILE.fullmatch(text)
    if cut is None:
        return Answer(text)
    first, last, total = (int(cut[group]) for group in (1, 2, 3))
    return Answer({"file": {"content": cut[4], "startLine": first, "numLines": last - first + 1, "totalLines": total}})


def _read_listing(text: str) -> Answer:
    if _EMPTY_DIRECTORY.fullmatch(text):
        return Answer({"entries": []})
    listing = _LISTING.fullmatch(text)
    if listing is None:
        return Answer(text)
    entries = [_entry(line) for line in listing["entries"].split("\n") if line]
    return Answer({"entries": entries, "text": text} if listing["note"] else {"entries": entries})


def _entry(line: str) -> str:
    return f"{line.removeprefix(_DIRECTORY)}/" if line.startswith(_DIRECTORY) else _SIZE.sub("", line)


def _read_search(text: str) -> Answer:
    if text.startswith(_NOTHING_ON_WEB):
        return Answer({"results": []})
    found, _, last = text.rpartition("\n\nSources:\n")
    sources = [source for source in map(_SOURCE.fullmatch, last.split("\n")) if source]
    results = [{"title": source[1], "url": source[2]} for source in sources]
    summary = _WEB_HEADING.sub("", found if results else text, count=1)
    return Answer({"results": [*results, {"snippet": summary}]})


def _read_subagent(text: str) -> Answer:
    """`local-invocation.ts`: only its text says that a subagent failed; the call succeeded."""
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
