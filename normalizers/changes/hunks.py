"""The hunks of a file's cumulative diff, and their unified text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tooltap.normalizers.changes.content import Content, TrackedLine, Unplaced, split_lines
from tooltap.normalizers.changes.line_diff import Block, blocks
from tooltap.protocol.replies import Hunk

CONTEXT = 3
NO_NEWLINE = "\\ No newline at end of file"


def hunks_of(content: Content) -> tuple[list[Hunk], bool]:
    """The hunks, and whether they are those of a diff of the whole files."""
    old, new = content.old, content.new
    found = blocks(list(map(_key, old)), list(map(_key, new)))
    groups = list(_grouped(old, found))
    hunks = [_hunk(old, new, group) for group in groups]
    whole = content.consistent and not content.loose and all(_is_whole(content, group) for group in groups)
    return [*hunks, *(hunk for one in content.loose for hunk in _loose_hunks(one))], whole


def unified(hunks: Sequence[Hunk]) -> Iterator[str]:
    """The lines of the hunks in a unified diff, without newlines."""
    for hunk in hunks:
        if hunk.old_start is None or hunk.new_start is None:
            yield "@@"
        else:
            yield f"@@ -{_range(hunk.old_start, hunk.old_lines)} +{_range(hunk.new_start, hunk.new_lines)} @@"
        yield from hunk.lines


def _range(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"


def _key(line: TrackedLine) -> Any:
    return id(line) if line.text is None else line.text


def _grouped(old: list[TrackedLine], found: list[Block]) -> Iterator[list[Block]]:
    """Blocks whose context would touch are in one hunk."""
    group: list[Block] = []
    for block in found:
        if group:
            between = old[group[-1][1] : block[0]]
            if len(between) > 2 * CONTEXT or any(line.text is None for line in between):
                yield group
                group = []
        group.append(block)
    if group:
        yield group


def _hunk(old: list[TrackedLine], new: list[TrackedLine], group: list[Block]) -> Hunk:
    first, last = group[0], group[-1]
    start = first[0]
    while start > max(first[0] - CONTEXT, 0) and old[start - 1].text is not None:
        start -= 1
    end = last[1]
    while end < min(last[1] + CONTEXT, len(old)) and old[end].text is not None:
        end += 1
    lines: list[str] = []
    seqs: set[int] = set()
    at = start
    for a1, a2, b1, b2 in group:
        lines += _marked(" ", old[at:a1])
        lines += _marked("-", old[a1:a2])
        lines += _marked("+", new[b1:b2])
        seqs.update(line.removed for line in old[a1:a2] if line.removed is not None)
        seqs.update(line.added for line in new[b1:b2] if line.added is not None)
        at = a2
    lines += _marked(" ", old[at:end])
    old_count = end - start
    new_start = first[2] - (first[0] - start)
    new_count = last[3] + (end - last[1]) - new_start
    return Hunk(
        old_start=start + (old_count > 0),
        old_lines=old_count,
        new_start=new_start + (new_count > 0),
        new_lines=new_count,
        lines=lines,
        seqs=sorted(seqs),
    )


def _marked(mark: str, lines: Sequence[TrackedLine]) -> Iterator[str]:
    for line in lines:
        text = line.text or ""
        yield mark + text.removesuffix("\n")
        if not text.endswith("\n"):
            yield NO_NEWLINE


def _is_whole(content: Content, group: list[Block]) -> bool:
    """Whether the context of a hunk is known, so far as the file has lines there."""
    old, start, end = content.old, group[0][0], group[-1][1]
    if end + CONTEXT > len(old) and content.open:
        return False
    return all(line.text is not None for line in old[max(start - CONTEXT, 0) : end + CONTEXT])


def _loose_hunks(one: Unplaced) -> Iterator[Hunk]:
    old = [TrackedLine(line) for line in split_lines(_ended(one.old))]
    new = [TrackedLine(line) for line in split_lines(_ended(one.new))]
    for group in _grouped(old, blocks([line.text for line in old], [line.text for line in new])):
        hunk = _hunk(old, new, group)
        yield msgspec.structs.replace(hunk, old_start=None, new_start=None, seqs=one.seqs)


def _ended(text: str) -> str:
    """The text with a final newline: a replaced text may end within a line, which says nothing of the end of the
    file."""
    return f"{text}\n" if text and not text.endswith("\n") else text
