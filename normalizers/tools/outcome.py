"""Outcome of a call, inferred from the words and shapes that providers use; one table for all dialects.

There are three kinds of evidence, from the strongest to the weakest:

1. `status_word`: a word that the wire states as the status (`declined`, `aborted`, `error`).
2. `stated_status`: keys that say it without such a word (`is_error`, `success: false`, a signal, an exit code).
3. `status_in_words`: the sentence that an agent puts in the place of a result (`The user doesn't want to proceed …`). A
   tool may print the same sentence, so it counts only at its place, and in the results of the agent that says it.

A denied call was not allowed to run; a cancelled one was stopped; an interrupted one has no result, since its agent has
ended. Everything else that went wrong failed.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_WORDS: dict[str, tuple[str, ...]] = {
    "completed": ("completed", "complete", "success", "succeeded", "successful", "ok", "done", "finished", "passed"),
    "failed": ("failed", "failure", "fail", "error", "errored", "timeout", "timedout", "crashed", "incomplete",
               "invalid"),
    "denied": ("denied", "deny", "declined", "decline", "rejected", "reject", "refused", "forbidden", "disallowed",
               "blocked", "skipped", "notallowed", "permissiondenied"),
    "cancelled": ("cancelled", "canceled", "cancel", "cancelturn", "aborted", "abort", "stopped", "killed",
                  "terminated"),
    "interrupted": ("interrupted", "lost"),
}  # fmt: skip
_STATUS_OF = {word: status for status, words in _WORDS.items() for word in words}
_SEPARATORS = str.maketrans("", "", "-_ ")
_FAILED_FLAGS = ("is_error", "isError")
_PASSED_FLAGS = ("success", "succeeded", "ok")
_EXIT_CODES = ("exit_code", "exitCode", "returncode", "returnCode", "return_code")
_CODE = re.compile(r"-?\d{1,10}", re.ASCII)
_STATED = ("status", "outcome", "finishReason", "finish_reason")
_ERROR_KEYS = ("message", "error", "text", "data")
_LEVELS = 4
HEAD = 400
"""Length of the beginning of a text in which a sentence is searched for, in code points."""


def status_word(word: Any) -> str | None:
    """Return the status of a result that a word states; None for an unknown word, and for a value that is no word."""
    if not isinstance(word, str) or len(word) > 40:
        return None
    return _STATUS_OF.get(word) or _STATUS_OF.get(word.translate(_SEPARATORS).lower())


def failure_or(word: Any, stated: str) -> str:
    """Return the status that a word states if it is a failure of any kind, else the one `stated` elsewhere."""
    status = status_word(word)
    return stated if status in (None, "completed") else str(status)


def stated_status(value: Any) -> str | None:
    """Return the status that an object's keys state; None if none of them states one.

    Signs of failure take precedence over signs of success: a tool that ran (`success: true`) may have run a command
    that failed (`exit_code: 1`)."""
    if not isinstance(value, dict):
        return None
    found = [status_word(value[key]) for key in _STATED if key in value]
    for status in ("denied", "cancelled", "interrupted", "failed"):
        if status in found:
            return status
    if value.get("interrupted") is True or value.get("aborted") is True or value.get("cancelled") is True:
        return "cancelled"
    if any(value.get(key) is True for key in _FAILED_FLAGS) or any(value.get(key) is False for key in _PASSED_FLAGS):
        return "failed"
    signal = value.get("signal")
    if isinstance(signal, str | int) and not isinstance(signal, bool) and signal:
        return "failed"
    for key in _EXIT_CODES:
        code = value.get(key)
        if isinstance(code, str):
            code = int(code) if _CODE.fullmatch(code) else 0
        if isinstance(code, int) and not isinstance(code, bool) and code != 0:
            return "failed"
    if "completed" in found or any(value.get(key) is True for key in _PASSED_FLAGS):
        return "completed"
    return "completed" if any(value.get(key) is False for key in _FAILED_FLAGS) else None


def error_words(error: Any) -> str | None:
    """Text of an error: a string, or an object that holds one at some depth."""
    for _ in range(_LEVELS):
        if isinstance(error, str):
            return error or None
        if not isinstance(error, dict):
            return None
        error = next((error[key] for key in _ERROR_KEYS if error.get(key)), None)
    return None


class Words(NamedTuple):
    """A sentence that stands in the place of a result."""

    family: str
    """The dialects' folder; `""`: any agent."""
    pattern: str
    """Matched at the beginning of the text, in its first code points (`HEAD`)."""
    status: str
    seen: str
    """Agent and version whose output has the sentence."""
    unflagged: bool = False
    """True if the sentence also counts when the wire does not flag the result as an error."""


WORDS: tuple[Words, ...] = (
    Words("", r"(?:[^\n]{0,80}\b)?(?:rejected|denied|declined|refused) by (?:the )?user\b", "denied",
          "Codex 0.58, Qwen Code 0.24.4"),
    Words("", r"(?:The )?user (?:has )?(?:rejected|denied|declined|refused)\b", "denied", "OpenCode 1.18"),
    Words("", r"(?:[^\n]{0,80}\b)?(?:cancelled|canceled|aborted|interrupted) by (?:the )?user\b", "cancelled",
          "Gemini CLI 0.61"),
    Words("", r"(?:The )?user (?:has )?(?:cancelled|canceled|aborted|interrupted|dismissed)\b", "cancelled",
          "OpenCode 1.18"),
    Words("", r"(?:Tool execution|Operation|Command|Request) (?:was )?(?:aborted|cancelled|canceled)\b",
          "cancelled", "Pi 0.73"),
    Words("gemini", r"(?:\[Operation Cancelled\] (?:Reason: )?)?(?:User denied execution|User did not allow tool call|"
                    r"Tool execution blocked: |Tool execution (?:for \"[^\"\n]{0,200}\" )?"
                    r"(?:denied by policy|requires user confirmation))", "denied", "Gemini CLI 0.61"),
    Words("gemini", r"\[Operation Cancelled\]", "cancelled", "Gemini CLI 0.61"),
    Words("claude", r"The user doesn't want to [^\n]{0,300}Correction to the text above: this call was stopped while ",
          "cancelled", "Claude Code 2.1.332, in a session that goes on"),
    Words("claude", r"The user doesn't want to (?:proceed with this tool use|take this action)", "denied",
          "Claude Code 1.0.128"),
    Words("claude", r"The tool use was rejected", "denied", "Claude Code 2.1.330"),
    Words("claude", r"Claude requested permissions? to ", "denied", "Claude Code 1.0.128"),
    Words("claude", r"Permission (?:to use|for) [^\n]{0,300}denied\b", "denied", "Claude Code 2.0"),
    Words("claude", r"This command requires approval", "denied", "Claude Code 1.0.128"),
    Words("claude", r"This Bash command contains multiple operations\. The following parts? requires? approval",
          "denied", "Claude Code 2.0"),
    Words("claude", r"[^\n]{0,300} was blocked\. For security, Claude Code may only", "denied", "Claude Code 2.0"),
    Words("claude", r"Run outside of the sandbox\Z", "denied", "Claude Code 2.1"),
    Words("claude", r"Exit plan mode\?\Z", "denied", "Claude Code 1.0.128"),
    Words("claude", r"\[Request interrupted by user", "cancelled", "Claude Code 2.0"),
    Words("claude", r"(?:Cancelled: parallel|Sibling) tool call\b", "cancelled", "Claude Code 2.1"),
    Words("codex", r"(?:Wall time:? [\d.]{1,20} seconds\n)?aborted by user", "cancelled", "Codex 0.46 to 0.169",
          unflagged=True),
    Words("codex", r"aborted\Z", "cancelled", "Codex 0.58", unflagged=True),
    Words("codex", r"(?:exec command|patch) rejected by user|user (?:rejected|cancelled) MCP tool call|"
                   r"approval policy is Never; reject command|MCP tool call requires approval, but", "denied",
          "Codex 0.46 to 0.169", unflagged=True),
    Words("claude", r"User refused permission to run tool", "denied", "claude-agent-acp 0.23 and 0.100"),
    Words("kimi", r"The tool call is rejected by the user", "denied", "Kimi CLI 1.40"),
    Words("kimi", r'Tool "[^"\n]{1,200}" was (?:not run because the user rejected|denied by permission )', "denied",
          "Kimi Code 2.1", unflagged=True),
    Words("kimi", r"Plan rejected by user\.|\w{1,40} is disabled while \w{1,20} permission mode is active", "denied",
          "Kimi Code 2.1", unflagged=True),
    Words("kimi", r'Tool "[^"\n]{1,200}" (?:was not run because the approval request was cancelled|(?:was )?aborted\b)',
          "cancelled", "Kimi Code 2.1", unflagged=True),
    Words("kimi", r'The user manually interrupted "', "cancelled", "Kimi Code 2.1", unflagged=True),
    Words("opencode", r"The user has specified a rule which prevents you", "denied", "OpenCode 1.18"),
    Words("opencode", r"User aborted the command", "cancelled", "OpenCode 1.18", unflagged=True),
    Words("pi", r"Tool execution was blocked", "denied", "Pi 0.73"),
    Words("qwen", r"[^\n]{0,120}(?:did not allow tool call|requires permission to use|permission was declined|"
                  r"denied by)", "denied", "Qwen Code 0.24.4"),
    Words("qwen", r"\[Operation Cancelled\]", "cancelled", "Qwen Code 0.24.4"),
    Words("qwen", r"Tool result missing from saved history; the previous run likely ended", "interrupted",
          "Qwen Code 0.24.4"),
    Words("cline", r"(?s:.{0,300})NOT a tool or system failure", "denied", "Cline 3.0"),
)  # fmt: skip

_NOTHING = {
    "claude": re.compile(r"\([\w.-]{1,80} completed with no output\)"),  # Claude Code 2.1
    "kimi": re.compile(r"Tool output is empty\."),  # Kimi CLI 1.40
    "pi": re.compile(r"\(no output\)"),  # Pi 0.73
    "qwen": re.compile(r"\([\w.-]{1,80} completed with no output\)"),  # Qwen Code 0.24.4
}
"""Family -> what its agent says to the model in place of an output that is empty."""


def is_nothing(text: str, family: str) -> bool:
    """Whether an agent of this family says with this text that an output is empty."""
    return family in _NOTHING and _NOTHING[family].fullmatch(text) is not None


def empty_output(name: str) -> Any:
    """An empty output of the canonical tool `name`, in a form that its family reads."""
    return {"stdout": ""} if name == "Bash" else {"file": {"content": ""}} if name == "Read" else ""


_NO_CONTENT = re.compile(
    r"Cannot display content of (?:binary|SVG) file(?: larger than \w{1,10})?: [^\n]+"
    r"|Skipped (?:(?:audio|binary|image|pdf|video) file|unhandled file type|large SVG file \(>\w{1,10}\)): [^\n]+"
    r"|(?:Read (?:audio|image|pdf|video) file|Omitted (?:undecodable image|unsupported image format)|Failed to read pdf"
    r"|Referenced large PDF|PDF text too large): [^\n]+"
    r"|\[(?:Unsupported (?:audio|image|video) file|Cannot extract text from PDF): [^\n]+\]",
    re.ASCII,
)
"""What Gemini CLI and Qwen Code say, to the model or to the user, in place of a file (`fileUtils.ts` of both)."""


def is_no_content(text: str) -> bool:
    """Whether an agent says with this text that it does not show what is in a file."""
    return _NO_CONTENT.fullmatch(text) is not None


_COMPILED = tuple((one, re.compile(one.pattern, re.ASCII)) for one in WORDS)


def status_in_words(text: str | None, family: str, *, flagged: bool = True) -> str | None:
    """Return `denied` or `cancelled` if the text is a sentence in place of a result that says so, else None.

    `family`: folder of the dialects of the agent that states the result. `flagged`: the wire says that the call did not
    succeed. Do not use it for the output of a command with an exit code: there the command printed the sentence."""
    if not text:
        return None
    head = text.lstrip()[:HEAD]
    for words, pattern in _COMPILED:
        if (flagged or words.unflagged) and words.family in ("", family) and pattern.match(head):
            return words.status
    return None
