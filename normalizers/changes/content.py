"""Content of one file, as far as the events state it: its lines before the session, its lines now, and the hunks of the
diff between them.

A line that was neither added nor removed is the same object in both lists, so that text learned for one list is known
in the other. A line of which only the position is known has no text. A replacement whose position is unknown is
`Unplaced`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tooltap.normalizers.changes.line_diff import Block, blocks
from tooltap.protocol.replies import Hunk

MAX_LINES = 100_000
"""Maximum line count of a file of which only line positions are known."""


class TrackedLine:
    """A line, and the calls that added and removed it."""

    __slots__ = ("added", "removed", "text")

    def __init__(self, text: str | None, added: int | None = None) -> None:
        self.text = text
        """With its newline; None if unknown."""
        self.added = added
        """The `seq` of the call that added it."""
        self.removed: int | None = None


class Unplaced:
    """A text replacement at an unknown position in the file."""

    def __init__(self, old: str, new: str, seq: int) -> None:
        self.old = old
        self.new = new
        self._edits = [(old, new, seq)]

    def replace(self, old: str, new: str, seq: int) -> None:
        """Replace the only occurrence of `old` in the new text."""
        self.new = self.new.replace(old, new)
        self._edits.append((old, new, seq))

    @property
    def seqs(self) -> list[int]:
        return [seq for _, _, seq in self._edits]

    def lines(self) -> list[TrackedLine]:
        """The lines of the new text, and the calls that added them. The first and the last may be parts of lines."""
        content = Content.of(self.old)
        for number, (old, new, seq) in enumerate(self._edits):
            if number:
                content.replace(old, new, False, seq)
            else:
                content.become(new, seq)
        return content.new


class Content:
    """Lines of a file before the session and now. Calls change them; reads fill in their text."""

    def __init__(self) -> None:
        self.old: list[TrackedLine] = []
        self.new: list[TrackedLine] = []
        self.open = True
        """True if unknown lines may follow the last known one; those are unchanged."""
        self.loose: list[Unplaced] = []
        self.consistent = True
        """False once something stated contradicts what was known."""

    @classmethod
    def of(cls, text: str) -> Content:
        content = cls()
        content.old = [TrackedLine(line) for line in split_lines(text)]
        content.new = list(content.old)
        content.open = False
        return content

    @property
    def text(self) -> str | None:
        """The text now; None if not all of it is known."""
        if self.open:
            return None
        parts = [line.text for line in self.new]
        return None if None in parts else "".join(parts)  # type: ignore[arg-type]

    @property
    def is_untouched(self) -> bool:
        return not self.loose and len(self.old) == len(self.new) and all(map(_same, self.old, self.new))

    # -- what is learned ----------------------------------------------------------------------------------------

    def learn_all(self, text: str) -> None:
        """Record the whole current text."""
        known = self.text
        if known is not None:
            if known != text:
                self._change_unseen(text)
            return
        lines = split_lines(text)
        if not self._reach(len(lines)) or len(lines) < len(self.new) or (not self.open and len(self.new) != len(lines)):
            self._change_unseen(text)
            return
        for line, stated in zip(self.new, lines, strict=True):
            self._learn(line, stated)
        self.open = False
        if self.text != text:
            self._change_unseen(text)
        self._place_loose()

    def learn_part(self, first: int, lines: Sequence[str]) -> None:
        """Record the current text of some lines, starting at line `first` (1-based)."""
        if not lines or not self._reach(first - 1 + len(lines)):
            self.consistent = self.consistent and not lines
            return
        for line, stated in zip(self.new[first - 1 :], lines, strict=False):
            self._learn(line, stated)

    # -- changes ------------------------------------------------------------------------------------------------

    def become(self, text: str, seq: int | None) -> None:
        """Replace the whole text. Lines of unknown text are dropped from both lists."""
        if self.text is None:
            self.consistent = False
            self.old = [line for line in self.old if line.text is not None]
            self.new = [line for line in self.new if line.text is not None]
            self.open, self.loose = False, []
        self._splice(0, len(self.new), split_lines(text), seq)

    def replace(self, old: str, new: str, everywhere: bool, seq: int) -> None:
        """Replace the only occurrence of `old`, or every one."""
        if old == new:
            return
        text = self.text
        if text is not None:
            if not old or old not in text:
                self.consistent = False
                self.loose.append(Unplaced(old, new, seq))
            elif everywhere and text.count(old) > 1:
                self._splice(0, len(self.new), split_lines(text.replace(old, new)), seq)
            else:
                self.consistent = self.consistent and text.count(old) == 1  # the first may be the wrong one
                self._replace_at(0, text, old, new, seq)
        elif not self._replace_known(old, new, everywhere, seq):
            known = next((one for one in self.loose if old and one.new.count(old) == 1 and not everywhere), None)
            if known is None:
                self.loose.append(Unplaced(old, new, seq))
            else:
                known.replace(old, new, seq)

    def patch(self, start: int, lines: Sequence[str], seq: int) -> None:
        """Apply a hunk at line `start`: lines that begin with a blank, `-` or `+`."""
        at = start - 1
        if not self._reach(at + sum(line[:1] != "+" for line in lines)):
            self.consistent = False
            self.loose.append(Unplaced(*_sides(lines), seq))
            return
        kept: list[TrackedLine] = []
        end = at
        for line in lines:
            if line[:1] == "+":
                kept.append(TrackedLine(line[1:], seq))
                continue
            current = self.new[end]
            end += 1
            self._learn(current, line[1:])
            if line[:1] == "-":
                _remove(current, seq)
            else:
                kept.append(current)
        self.new[at:end] = kept

    def patch_somewhere(self, lines: Sequence[str], seq: int) -> None:
        """Apply a hunk whose place is not stated."""
        places = self._places([line[1:] for line in lines if line[:1] != "+"])
        if len(places) == 1:
            self.patch(places[0] + 1, lines, seq)
        else:
            self.loose.append(Unplaced(*_sides(lines), seq))

    # -- inside -------------------------------------------------------------------------------------------------

    def _reach(self, count: int) -> bool:
        """Extend the file to `count` lines. Returns False if it cannot have that many."""
        if len(self.new) < count:
            if not self.open or count > MAX_LINES:
                return False
            more = [TrackedLine(None) for _ in range(count - len(self.new))]
            self.old += more
            self.new += more
        return True

    def _learn(self, line: TrackedLine, stated: str) -> None:
        if line.text is None:
            line.text = stated
        elif line.text.rstrip("\r\n") != stated.rstrip("\r\n"):
            self.consistent = False

    def _change_unseen(self, text: str) -> None:
        """Record that something no event shows has changed the file; `text` is the current text."""
        self.consistent = False
        known = self.text
        if known is None:
            self.open = False
            for line in self.new:
                line.text = line.text or ""
        self._splice(0, len(self.new), split_lines(text), None)

    def _splice(self, start: int, end: int, lines: list[str], seq: int | None) -> None:
        current = self.new[start:end]
        result: list[TrackedLine] = []
        at = 0
        for a1, a2, b1, b2 in blocks([line.text for line in current], lines):
            result += current[at:a1]
            for line in current[a1:a2]:
                _remove(line, seq)
            result += [TrackedLine(text, seq) for text in lines[b1:b2]]
            at = a2
        self.new[start:end] = result + current[at:]

    def _replace_at(self, first: int, text: str, old: str, new: str, seq: int) -> None:
        """Replace `old` in `text`, which is the text of the lines from index `first` on."""
        place = text.index(old)
        end = place + len(old)
        line_start = text.rfind("\n", 0, place) + 1
        line_end = text.find("\n", end) + 1 or len(text)
        start = first + text.count("\n", 0, line_start)
        stop = start + len(split_lines(text[line_start:line_end]))
        self._splice(start, stop, split_lines(text[line_start:place] + new + text[end:line_end]), seq)

    def _replace_known(self, old: str, new: str, everywhere: bool, seq: int) -> bool:
        """Replace `old` in the lines whose text is known. Returns False unless its position is unambiguous."""
        if not old or everywhere:
            return False
        found = [(start, text) for start, text in self._runs() if text.count(old) == 1]
        if len(found) != 1:
            return False
        self._replace_at(*found[0], old, new, seq)
        return True

    def _runs(self) -> list[tuple[int, str]]:
        """Consecutive lines whose text is known: index of the first, and their text."""
        runs: list[tuple[int, str]] = []
        start, parts = 0, list[str]()
        for index, line in enumerate([*self.new, TrackedLine(None)]):
            if line.text is not None:
                if not parts:
                    start = index
                parts.append(line.text)
            elif parts:
                runs.append((start, "".join(parts)))
                parts = []
        return runs

    def _places(self, lines: list[str]) -> list[int]:
        """Indexes in `new` at which these lines begin."""
        if not lines:
            return []
        texts = [line.text for line in self.new]
        count = len(lines)
        firsts = [n for n, text in enumerate(texts) if text == lines[0]]
        return [n for n in firsts if texts[n : n + count] == lines]

    def _place_loose(self) -> None:
        """Locate unplaced replacements in the current text, now that it is known; latest first."""
        left: list[Unplaced] = []
        for one in reversed(self.loose):
            if not self._place(one):
                left.append(one)
        self.loose = left[::-1]

    def _place(self, one: Unplaced) -> bool:
        text = self.text or ""
        if not one.new or text.count(one.new) != 1:
            return False
        place = text.index(one.new)
        end = place + len(one.new)
        line_start = text.rfind("\n", 0, place) + 1
        line_end = text.find("\n", end) + 1 or len(text)
        start = text.count("\n", 0, line_start)
        region = self.new[start : start + len(split_lines(text[line_start:line_end]))]
        at = next((n for n, line in enumerate(self.old) if line is region[0]), None)
        if at is None or self.old[at : at + len(region)] != region:
            return False
        before = split_lines(text[line_start:place] + one.old + text[end:line_end])
        seq = one.seqs[-1]
        old: list[TrackedLine] = []
        last = 0
        for a1, a2, b1, b2 in blocks(before, [line.text for line in region]):
            old += region[last:b1]
            for gone in before[a1:a2]:
                old.append(TrackedLine(gone))
                old[-1].removed = seq
            for line in region[b1:b2]:
                line.added = seq
            last = b2
        self.old[at : at + len(region)] = old + region[last:]
        return True


def split_lines(text: str) -> list[str]:
    """Lines with their newlines."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _remove(line: TrackedLine, seq: int | None) -> None:
    if line.added is None:
        line.removed = seq


def _same(a: TrackedLine, b: TrackedLine) -> bool:
    return a is b or (a.text is not None and a.text == b.text)


def _sides(lines: Sequence[str]) -> tuple[str, str]:
    old = "".join(line[1:] for line in lines if line[:1] != "+")
    return old, "".join(line[1:] for line in lines if line[:1] != "-")


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
    """Append a final newline if there is none: a replaced text may end within a line, so its end does not show that the
    file lacks one."""
    return f"{text}\n" if text and not text.endswith("\n") else text
