"""What a tool of Pi answered, and what it showed while it ran."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Display

__all__ = ["Shown", "read_result"]

_ENDING = re.compile(
    r"(?:\A|\n\n)(Command (?:exited with code (?P<code>-?\d+)|(?P<aborted>aborted)|timed out after \S+ seconds))\Z",
    re.ASCII,
)
_MATCH = re.compile(r"(.+?):(\d+): (.*)", re.ASCII)
"""A line of `grep`; other tools put no space before the line's own text, as ripgrep does not."""
_NOTHING = "(no output)"
_BLOCKED = "Tool execution was blocked"
"""Where the extension that blocked the call gives no reason of its own."""
_ABORTED = ("Operation aborted", "Command aborted")


def read_result(name: str, result: dict[str, Any], has_pictures: bool) -> Answer:
    """Of a result's content, its details and whether it is an error."""
    content = result.get("content")
    text = blocks_text(content) or ""
    diff = string(record(result.get("details")).get("diff"))
    display = Display(origin="provider", text=diff) if diff else None
    failed = result.get("isError") is True
    if name == "Bash":
        return _shell(text, failed)
    if failed:
        status = "denied" if text == _BLOCKED else "cancelled" if text in _ABORTED else "failed"
        return Answer(None, status, text, display=display)
    if name == "Read" and has_pictures:
        return Answer({"message": text}, display=display)  # "Read image file [image/png]"
    if name == "Grep":
        return Answer(_matches(text), display=display)
    return Answer(content, display=display)


def _matches(text: str) -> Any:
    """What `grep` found, and its text where that says more: lines of context, notes that it was cut."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [match for line in lines if (match := _MATCH.fullmatch(line))]
    matches = [{"filePath": one[1], "line": int(one[2]), "excerpt": one[3]} for one in found]
    if not matches:
        return text
    return {"matches": matches} if len(matches) == len(lines) else {"matches": matches, "text": text}


def _shell(text: str, failed: bool) -> Answer:
    """The error of a failed command is what it printed, and below it how it ended."""
    ending = _ENDING.search(text) if failed else None
    if failed and ending is None:  # it never ran
        return Answer(None, "denied" if text == _BLOCKED else "failed", text)
    printed = text[: ending.start()] if ending else text
    value: dict[str, Any] = {"stdout": "" if printed == _NOTHING else printed}
    if ending is None:
        return Answer(value)
    if ending["code"]:
        value["exit_code"] = int(ending["code"])
    return Answer(value, "cancelled" if ending["aborted"] else "failed", ending[1])


class Shown(msgspec.Struct, omit_defaults=True):
    """The output a running call last showed. Pi sends it whole each time, and only its end once it is over 50 kB."""

    text: str = ""
    """Cut at what an event may hold."""
    length: int = 0
    """Of the whole it was cut from."""
    tail: str = ""
    sent: int = 0
    """Code points shown so far."""

    def show(self, text: str, limit: int) -> str:
        """Remember `text`; gives what of it is new."""
        if text.startswith(self.text):
            new = text[self.length :]
        else:  # the window has moved on: what follows the last lines known
            found = text.rfind(self.tail)
            new = text[found + len(self.tail) :] if found >= 0 else text
        self.text = text.encode()[:limit].decode("utf-8", "ignore")
        self.length, self.tail = len(text), text[-TAIL:]
        self.sent += len(new)
        return new


TAIL = 200
"""Code points by which the end of what was shown is found again."""
