"""Changes of files as signed lines, made from two texts, a unified diff, Claude Code's hunks, or the input of a call.

Changes inside a line are searched only in lines that are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from tooltap.daemon.formats import counted
from tooltap.daemon.show.blocks import brief as shortened
from tooltap.normalizers.changes.line_diff import blocks
from tooltap.normalizers.tools import unified_diff
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import TOOLS, DiffInput, EditInput, Modification, MultiEditInput, PatchInput, SingleEdit
from tooltap.protocol.tools import Change as PatchChange

COMPARISONS, COMPARISONS_PER_LINE = 100_000, 20
"""Maximum comparisons of lines for two texts: in all, and for each of their lines. Beyond that, all old lines stand
before all new ones."""
COMPARISONS_INSIDE = 2_000
"""Maximum comparisons of words for one pair of lines."""
COMPARED_CHARACTERS = 300
"""Maximum characters of a line in which changes inside the line are searched."""
COMPARED_PAIRS = 200
"""Maximum pairs of lines of one hunk in which changes inside the line are searched."""
CONTEXT = 3
"""Unchanged lines shown around changed ones."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


class DiffLine(NamedTuple):
    sign: str
    """`+`, `-`, or a space; `\\` for a remark of the diff."""
    text: str
    number: int | None = None
    """Line number in the new file; of a removed line, in the old file."""
    segments: tuple[tuple[str, bool], ...] = ()
    """The text in segments, and whether each has changed; empty unless some have changed and some have not."""


class DiffHunk(NamedTuple):
    title: str
    """The place according to the diff, such as the function around it."""
    lines: Sequence[DiffLine]


class FileDiff(NamedTuple):
    """The change of one file."""

    path: str
    kind: str
    """`add`, `modify`, `delete`, `rename`, or the provider's own word; empty if unknown."""
    hunks: Sequence[DiffHunk]
    moved_to: str = ""
    note: str = ""
    hidden: int = 0
    """Number of lines that are not shown."""
    added: int = 0
    removed: int = 0

    @classmethod
    def of(cls, path: str, kind: str, hunks: Sequence[DiffHunk], *, moved_to: str = "", note: str = "") -> FileDiff:
        signs = [line.sign for hunk in hunks for line in hunk.lines]
        return cls(path, kind, hunks, moved_to, note, 0, signs.count("+"), signs.count("-"))


def between(old: str, new: str) -> tuple[list[DiffHunk], str]:
    """Compare two texts. Return the hunks, and a remark, which may be empty. Lines have no numbers, since the texts may
    be parts of files."""
    before, after = _lines(old.replace("\r\n", "\n")), _lines(new.replace("\r\n", "\n"))
    if before == after and old != new:
        if old.removesuffix("\n") == new.removesuffix("\n"):
            return [], "Only the newline at the end changes."
        before, after = _lines(old), _lines(new)  # line ends change
    most = min(COMPARISONS, COMPARISONS_PER_LINE * (len(before) + len(after)))
    lines: list[DiffLine] = []
    at = 0
    for a1, a2, b1, b2 in blocks(before, after, most):
        lines += [DiffLine(" ", text) for text in after[at:b1]]
        lines += [DiffLine("-", text) for text in before[a1:a2]]
        lines += [DiffLine("+", text) for text in after[b1:b2]]
        at = b2
    lines += [DiffLine(" ", text) for text in after[at:]]
    return [DiffHunk("", lines)], ""


def near(hunks: Iterable[DiffHunk]) -> list[DiffHunk]:
    """Keep the changed lines and those around them; the title of each hunk says how many equal lines are left out
    before it."""
    shown: list[DiffHunk] = []
    for hunk in hunks:
        lines: list[DiffLine] = []
        last = -1
        for at in _places_near_changes(hunk.lines):
            if at != last + 1 or not lines:
                left_out = at - last - 1
                lines = []
                shown.append(
                    DiffHunk(f"{counted(left_out, 'line is', 'lines are')} the same" if left_out else "", lines)
                )
            lines.append(hunk.lines[at])
            last = at
    return shown


def whole(text: str, sign: str) -> list[DiffHunk]:
    """Return the lines of a file that is added (`+`) or deleted (`-`)."""
    return [DiffHunk("", [DiffLine(sign, line, at) for at, line in enumerate(_lines(text), 1)])]


def changes_of_diff(text: str) -> list[FileDiff]:
    """Parse a unified diff of one or several files. If it names no file, the change has no path."""
    files = unified_diff.split_files(text)
    if not files:
        hunks = hunks_of_diff(text)
        return [FileDiff.of("", "", hunks)] if hunks else []
    return [FileDiff.of(one.path, one.kind, hunks_of_diff(one.text), moved_to=one.move_path or "") for one in files]


def hunks_of_diff(text: str) -> list[DiffHunk]:
    """Parse the part of a unified diff about one file. Hunks written by models may have no line numbers."""
    return [
        DiffHunk(one.title, _numbered(one.lines, one.old_start, one.new_start))
        for one in unified_diff.hunks(text)
        if one.lines
    ]


def _numbered(signed: Iterable[str], old: int | None, new: int | None) -> list[DiffLine]:
    """Parse lines that begin with their sign; an unchanged one may lack its space. `old`, `new`: the first line
    numbers."""
    lines: list[DiffLine] = []
    for text in signed:
        sign = text[:1] if text[:1] in ("+", "-", "\\") else " "
        rest = text[1:] if text.startswith((sign, " ")) else text
        lines.append(DiffLine(sign, rest, None if sign == "\\" else old if sign == "-" else new))
        old = None if old is None else old + (sign in "- ")
        new = None if new is None else new + (sign in "+ ")
    return lines


def hunks_of_claude(patch: Iterable[dict[str, Any]]) -> list[DiffHunk]:
    """Convert Claude Code's hunks, `{oldStart, newStart, lines}` each; every line begins with its sign."""
    hunks: list[DiffHunk] = []
    for one in patch:
        old, new = (one[key] if isinstance(one.get(key), int) else None for key in ("oldStart", "newStart"))
        given = one.get("lines")
        if lines := _numbered(
            (text for text in given if isinstance(text, str)) if isinstance(given, list) else (), old, new
        ):
            hunks.append(DiffHunk("", lines))
    return hunks


def cut(changes: Sequence[FileDiff], lines: int, *, brief: bool = False) -> list[FileDiff]:
    """Return at most `lines` lines in all, with what changed inside them. `brief`: only changed lines and those around
    them, and only the beginning of long lines."""
    shown: list[FileDiff] = []
    left = lines
    for change in changes:
        hunks: list[DiffHunk] = []
        hidden = 0
        for hunk in change.hunks:
            kept = _near_changes(hunk.lines, left) if brief else hunk.lines[:left]
            hidden += len(hunk.lines) - len(kept)
            left -= len(kept)
            if kept:
                hunks.append(DiffHunk(hunk.title, _with_segments(kept)))
        shown.append(change._replace(hunks=hunks, hidden=hidden))
    return shown


def _near_changes(lines: Sequence[DiffLine], most: int) -> list[DiffLine]:
    """Return the first `most` lines that changed or are around a change, shortened."""
    kept = (lines[at] for at in islice(_places_near_changes(lines), most))
    return [line._replace(text=shortened(line.text)) for line in kept]


def _places_near_changes(lines: Sequence[DiffLine]) -> Iterator[int]:
    after = 0
    for at, line in enumerate(lines):
        if line.sign != " ":
            yield from range(max(after, at - CONTEXT), min(at + CONTEXT + 1, len(lines)))
            after = at + CONTEXT + 1


def _with_segments(lines: Sequence[DiffLine]) -> list[DiffLine]:
    done = list(lines)
    at = pairs = 0
    while at < len(done) and pairs < COMPARED_PAIRS:
        removed = _run(done, at, "-")
        added = _run(done, at + removed, "+")
        for pair in range(min(removed, added, COMPARED_PAIRS - pairs)):
            one, other = at + pair, at + removed + pair
            done[one], done[other] = _compared(done[one], done[other])
            pairs += 1
        at += removed + added or 1
    return done


def _run(lines: Sequence[DiffLine], start: int, sign: str) -> int:
    end = start
    while end < len(lines) and lines[end].sign == sign:
        end += 1
    return end - start


def _compared(old: DiffLine, new: DiffLine) -> tuple[DiffLine, DiffLine]:
    if max(len(old.text), len(new.text)) > COMPARED_CHARACTERS:
        return old, new
    before, after = _WORDS.findall(old.text), _WORDS.findall(new.text)
    taken: list[tuple[str, bool]] = []
    put: list[tuple[str, bool]] = []
    unchanged = at = 0
    for a1, a2, b1, b2 in [
        *blocks(before, after, COMPARISONS_INSIDE),
        (len(before), len(before), len(after), len(after)),
    ]:
        same = "".join(before[at:a1])
        unchanged += len(same.strip())
        taken += [(same, False), ("".join(before[a1:a2]), True)]
        put += [(same, False), ("".join(after[b1:b2]), True)]
        at = a2
    if 2 * unchanged < min(len(old.text.strip()), len(new.text.strip())):
        return old, new  # two different lines rather than a changed one
    return (
        old._replace(segments=tuple(one for one in taken if one[0])),
        new._replace(segments=tuple(one for one in put if one[0])),
    )


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


# -- the changes that a call states in its input ---------------------------------------------------------------------


def changes_of(name: str, payload: dict[str, Any]) -> list[FileDiff]:
    """Return the changes that a call of a canonical tool states; none for a tool that changes no text."""
    types = TOOLS.get(name)
    return [] if types is None else changes_in(types.input.from_payload(payload))


def changes_in(payload: ToolInput) -> list[FileDiff]:
    """Return the changes that a call states in its input; none for a tool that changes no text."""
    match payload:
        case EditInput():
            edits = [_edit(payload, payload.file_path or "")]
        case MultiEditInput():
            edits = [_edit(edit, edit.file_path or payload.file_path or "") for edit in payload.edits or []]
        case PatchInput(changes=None):
            return changes_of_diff(payload.patch or "")
        case PatchInput():
            return [change_of(path, change) for path, change in (payload.changes or {}).items()]
        case DiffInput():
            return changes_of_diff(payload.unified_diff or "")
        case _:
            return []
    return [edit for edit in edits if edit is not None]


def _edit(edit: EditInput | SingleEdit, path: str) -> FileDiff | None:
    if edit.old_string is None and edit.new_string is None:
        return None
    hunks, note = between(edit.old_string or "", edit.new_string or "")
    if edit.replace_all:
        note = f"Wherever the text is found. {note}".strip()
    return FileDiff.of(path, "", hunks, note=note)


def change_of(path: str, change: PatchChange) -> FileDiff:
    """Return the change of one file of a patch."""
    hunks, note = _hunks(change)
    return FileDiff.of(path, change.type or "", hunks, moved_to=change.move_path or "", note=note)


def _hunks(change: PatchChange) -> tuple[list[DiffHunk], str]:
    if change.unified_diff and (hunks := hunks_of_diff(change.unified_diff)):
        return hunks, ""
    if change.modify is not None:
        return _modified(change.modify)
    if change.add is not None or change.type == "add":
        return whole((change.add and change.add.content) or change.content or "", "+"), ""
    if change.delete is not None or change.type == "delete":
        return whole((change.delete and change.delete.content) or change.content or "", "-"), ""
    return [], ""


def _modified(change: Modification) -> tuple[list[DiffHunk], str]:
    if not change.hunks:
        return between(change.old_content or "", change.new_content or "")
    compared = [between(hunk.old_content or "", hunk.new_content or "") for hunk in change.hunks]
    return [hunk for hunks, _ in compared for hunk in hunks], next((note for _, note in compared if note), "")
