"""Results of Pi's tools, and the output that a running tool has shown."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import status_in_words
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Display

_ENDING = re.compile(
    r"(?:\A|\n\n)(Command (?:exited with code (?P<code>-?\d+)|(?P<aborted>aborted)|timed out after \S+ seconds))\Z",
    re.ASCII,
)
_MATCH = re.compile(r"(.+?):(\d{1,15}): (.*)", re.ASCII | re.DOTALL)
"""A match of `grep`. Pi puts a space before the text of the line; other tools do not."""
_NOTHING = "(no output)"


def read_result(name: str, result: dict[str, Any], has_pictures: bool) -> Answer:
    """The answer in a result: its content, details and `isError`."""
    content = result.get("content")
    text = blocks_text(content) or ""
    diff = string(record(result.get("details")).get("diff"))
    display = Display(origin="provider", text=diff) if diff else None
    failed = result.get("isError") is True
    if name == "Bash":
        return _shell(text, failed)
    if failed:
        return Answer(None, status_in_words(text, "pi") or "failed", text, display=display)
    if name == "Read" and has_pictures:
        return Answer({"message": text}, display=display)  # "Read image file [image/png]"
    if name == "Grep":
        return Answer(_matches(text), display=display)
    return Answer(content, display=display)


def _matches(text: str) -> Any:
    """The matches of `grep`, and its text where that has more: context lines, or notes that it was truncated."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [match for line in lines if (match := _MATCH.fullmatch(line))]
    matches = [{"filePath": one[1], "line": int(one[2]), "excerpt": one[3]} for one in found]
    if not matches:
        return text
    return {"matches": matches} if len(matches) == len(lines) else {"matches": matches, "text": text}


def _shell(text: str, failed: bool) -> Answer:
    """The text of a failed command is its output, followed by a line that states how it ended."""
    ending = _ENDING.search(text) if failed else None
    if failed and ending is None:  # it never ran
        return Answer(None, status_in_words(text, "pi") or "failed", text)
    printed = text[: ending.start()] if ending else text
    value: dict[str, Any] = {"stdout": "" if printed == _NOTHING else printed}
    if ending is None:
        return Answer(value)
    if ending["code"]:
        value["exit_code"] = int(ending["code"])
    return Answer(value, "cancelled" if ending["aborted"] else "failed", ending[1])


class ShownOutput(msgspec.Struct, omit_defaults=True):
    """The output that a running call last showed. Pi repeats all of it, or only its end once it exceeds 50 kB."""

    text: str = ""
    """Truncated to the limit of a string in an event."""
    length: int = 0
    """Length of the text before truncation, in code points."""
    tail: str = ""
    sent: int = 0
    """Code points shown so far."""

    def show(self, text: str, limit: int) -> str:
        """Remember `text`, and return its new part."""
        if text.startswith(self.text):
            new = text[self.length :]
        else:  # the window has moved: the new part follows the last known lines
            found = text.rfind(self.tail)
            new = text[found + len(self.tail) :] if found >= 0 else text
        self.text = text.encode()[:limit].decode("utf-8", "ignore")
        self.length, self.tail = len(text), text[-TAIL:]
        self.sent += len(new)
        return new


TAIL = 200
"""Code points at the end of the shown output by which `show` finds it again."""
