"""Which call wrote each line of a file: the edits of all sessions, replayed in the order in which they happened, and
compared with the file as it is now.

Nothing is guessed. A line has a call only if it is now as the call wrote it, and its place shows that it is this line:
where all of the file's text was known, by a diff; where only parts were, because such a part is in the file once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tooltap.normalizers.changes.content import Content, TrackedLine, split_lines
from tooltap.normalizers.changes.line_diff import blocks
from tooltap.normalizers.changes.session_files import File, unfit
from tooltap.normalizers.changes.steps import Step


class Edit(NamedTuple):
    """What a call did to a file, or read of it."""

    ts: int
    """When, in milliseconds since the epoch."""
    seq: int
    """`seq` of the call."""
    step: Step
    """Its paths are absolute, and each file has one."""


class Attribution(NamedTuple):
    seqs: list[int | None]
    """For each line, the `seq` of the call that wrote it; None if that is not known."""
    unstated: set[int]
    """The `seq` of each call that changed the file without stating how, or at too great a length."""


def earlier_paths(path: str, edits: Iterable[Edit]) -> set[str]:
    """The path, and those from which calls have moved the file."""
    sources: dict[str, set[str]] = {}
    for edit in edits:
        if edit.step.kind == "move" and edit.step.to is not None:
            sources.setdefault(edit.step.to, set()).add(edit.step.path)
    found, new = {path}, [path]
    while new:
        for source in sources.get(new.pop(), ()):
            if source not in found:
                found.add(source)
                new.append(source)
    return found


def attribute(edits: Iterable[Edit], path: str, text: str, mask: Callable[[str], str]) -> Attribution:
    """Say which call wrote each line of a file. `text`: what it has now, with secrets masked. `mask`: masks those in
    the texts of edits."""
    files: dict[str, File] = {}
    unstated: dict[str, set[int]] = {}
    for edit in sorted(edits, key=lambda one: (one.ts, one.seq)):
        step, seq = edit.step, edit.seq
        if step.kind == "unknown" or any(unfit(one) for one in (step.text, step.before, step.old, step.new) if one):
            unstated.setdefault(step.path, set()).add(seq)
            continue
        step = _plain(step, mask)
        if step.kind == "delete":
            files.pop(step.path, None)
            unstated.pop(step.path, None)
        elif step.kind == "move" and step.to is not None:
            file = files.pop(step.path, None) or File(step.path)
            file.move(step.to, seq)
            files[step.to] = file
            unstated[step.to] = unstated.pop(step.path, set())
        else:
            _take(files.setdefault(step.path, File(step.path)), step, seq)
    lines = [line.removesuffix("\n") for line in split_lines(text)]
    content = files[path].content if path in files else None
    seqs = _match(content or Content(), lines)
    return Attribution(seqs, unstated.get(path, set()))


def _plain(step: Step, mask: Callable[[str], str]) -> Step:
    """The step with the line ends that agents use, whatever the file has."""

    def plain(text: str) -> str:
        return mask(text.replace("\r\n", "\n"))

    return step._replace(
        text=None if step.text is None else plain(step.text),
        before=None if step.before is None else plain(step.before),
        old=plain(step.old),
        new=plain(step.new),
        parts=tuple(part._replace(lines=[plain(line) for line in part.lines]) for part in step.parts),
    )


def _take(file: File, step: Step, seq: int) -> None:
    if step.kind == "read":
        file.read(step)
        return
    if step.before is not None:  # it shows what no call did since the last one
        file.read(Step("read", step.path, step.before))
    file.take(step, seq)


def _match(content: Content, lines: list[str]) -> list[int | None]:
    """Return the call that wrote each line of the file. `lines`: without their newlines."""
    found: dict[int, int | None] = {}
    parts = list(_runs(content.new))
    if content.text is not None:
        for place, same in _unchanged(content.new, lines):
            found.update((number, line.added) for number, line in enumerate(same, place))
        parts = []
    claims = _Claims(lines)
    for part in parts:
        claims.find(part, is_loose=False)
    for one in content.loose:
        claims.find(one.lines(), is_loose=True)
    for number, seqs in claims.seqs.items():
        if len(seqs) == 1:
            found.setdefault(number, next(iter(seqs)))
    return [found.get(number) for number in range(len(lines))]


def _unchanged(known: Sequence[TrackedLine], lines: list[str]) -> Iterator[tuple[int, Sequence[TrackedLine]]]:
    """Yield the lines that the file still has, as (index in `lines` of the first, consecutive lines). Braces and blank
    lines alone, between lines that differ, say nothing."""
    texts = [_text(line) for line in known]
    known_at = at = 0
    differing = blocks(texts, lines)
    for known_start, known_end, start, end in [*differing, (len(known), len(known), len(lines), len(lines))]:
        if not differing or _is_telling(lines[at:start]):
            yield at, known[known_at:known_start]
        known_at, at = known_end, end


def _runs(lines: Sequence[TrackedLine]) -> Iterator[list[TrackedLine]]:
    """Yield consecutive lines whose text is known."""
    run: list[TrackedLine] = []
    for line in [*lines, TrackedLine(None)]:
        if line.text is not None:
            run.append(line)
        elif run:
            yield run
            run = []


def _text(line: TrackedLine) -> str:
    return (line.text or "").removesuffix("\n")


def _is_telling(texts: Iterable[str]) -> bool:
    return any(char.isalnum() for text in texts for char in text)


class _Claims:
    """Finds parts of the file whose place is not known. A line that two calls may have written has two claims."""

    def __init__(self, lines: list[str]) -> None:
        self.seqs: dict[int, set[int]] = {}
        """Index of a line -> the calls that may have written it."""
        self._lines = lines
        self._places: dict[str, list[int]] = {}
        """Text of a line without the blanks around it -> where it is."""
        for number, line in enumerate(lines):
            self._places.setdefault(line.strip(), []).append(number)

    def find(self, part: list[TrackedLine], *, is_loose: bool) -> None:
        """Find a part as a whole, or else each of its lines that is in the file once, with the equal lines around it.
        `is_loose`: the part may begin after the indentation of its first line, and end before blanks."""
        texts = [_text(line) for line in part]
        if not _is_telling(texts):
            return
        starts = self._starts(texts, is_loose=is_loose)
        if len(starts) == 1:
            self._claim(part, starts[0], 0, len(part))
        elif not starts:
            self._find_lines(part, texts)

    def _starts(self, texts: list[str], *, is_loose: bool) -> list[int]:
        """Return at most two places at which all these lines are."""
        rarest = min(range(len(texts)), key=lambda at: len(self._places.get(texts[at].strip(), ())))
        found: list[int] = []
        for place in self._places.get(texts[rarest].strip(), ()):
            start = place - rarest
            there = self._lines[start : start + len(texts)] if start >= 0 else []
            if there and is_loose:
                there[0] = _beside(there[0], texts[0], str.lstrip)
                there[-1] = _beside(there[-1], texts[-1], str.rstrip)
            if there == texts:
                found.append(start)
                if len(found) == 2:
                    break
        return found

    def _find_lines(self, part: list[TrackedLine], texts: list[str]) -> None:
        end = 0
        for at, text in enumerate(texts):
            places = [place for place in self._places.get(text.strip(), ()) if self._lines[place] == text]
            if at < end or len(places) != 1 or not _is_telling([text]) or texts.count(text) > 1:
                continue
            offset, first, end = places[0] - at, at, at + 1
            while first > 0 and self._is_at(texts[first - 1], first - 1 + offset):
                first -= 1
            while end < len(texts) and self._is_at(texts[end], end + offset):
                end += 1
            self._claim(part, offset, first, end)

    def _is_at(self, text: str, place: int) -> bool:
        return 0 <= place < len(self._lines) and self._lines[place] == text

    def _claim(self, part: list[TrackedLine], offset: int, first: int, end: int) -> None:
        for at in range(first, end):
            if (seq := part[at].added) is not None:
                self.seqs.setdefault(at + offset, set()).add(seq)


def _beside(line: str, text: str, strip: Callable[[str], str]) -> str:
    """The line without the blanks at one end, if the text has none there."""
    return strip(line) if strip(text) == text else line
