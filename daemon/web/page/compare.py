"""The page that compares two sessions: their figures, their turns side by side, and the files they left.

Without two sessions it is the form that chooses them. Turns are paired in order, by the similarity of their prompts:
the fraction of words they share, which must be at least `LEAST`. Of all ways to pair turns in order, the one with the
highest sum of similarities is taken. A turn whose prompt is not known may be paired with any turn, if that costs no
other pair. Of a long session the first `MOST_BYTES` of events are read.

Where the whole text of a file is known on both sides, the two texts are compared. Otherwise each side shows the changes
of its own session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

import anyio
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.formats import amount, dollars, is_cost_bound, spent
from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.sessions.listing import STATUSES, WITH_CONTENT, ProjectNames, folder_of, name_of, status_of
from tooltap.daemon.sessions.row import title_of, words_of
from tooltap.daemon.sessions.stored import SessionEvents, check_not_lost
from tooltap.daemon.show.diff import DiffHunk, FileDiff, cut, hunks_of_diff
from tooltap.daemon.show.markup import product
from tooltap.daemon.show.tools.files import TAGS
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.show.turn_naming import TurnNaming
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, project_names, query_of, row_of, template
from tooltap.normalizers.changes.content import Content, hunks_of, unified
from tooltap.normalizers.changes.session_files import SessionFiles
from tooltap.normalizers.changes.steps import FILE_TOOLS
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import TIMED, EventHead
from tooltap.protocol.filters import Filter

Pair: TypeAlias = tuple[int | None, int | None]
"""Indexes of a left and a right turn; None on a side without a match."""

LEAST = 0.6
MOST_WORDS = 400
UNKNOWN = 0.001
"""Score of a pair in which a prompt is not known."""


def aligned(left: Sequence[str | None], right: Sequence[str | None]) -> list[Pair]:
    """Pair turns in order, with the highest sum of scores. `left`, `right`: their prompts; None where not known."""
    first, second = [_counted(one) for one in left], [_counted(one) for one in right]
    worth = [[_worth(one, other) for other in second] for one in first]
    best = [[0.0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for a in reversed(range(len(first))):
        for b in reversed(range(len(second))):
            paired = worth[a][b] + best[a + 1][b + 1] if worth[a][b] else 0.0
            best[a][b] = max(paired, best[a + 1][b], best[a][b + 1])
    return _walked(worth, best)


def _walked(worth: list[list[float]], best: list[list[float]]) -> list[Pair]:
    pairs: list[Pair] = []
    a = b = 0
    while a < len(best) - 1 and b < len(best[0]) - 1:
        if worth[a][b] and best[a][b] == worth[a][b] + best[a + 1][b + 1]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
        elif best[a][b] == best[a + 1][b]:
            pairs.append((a, None))
            a += 1
        else:
            pairs.append((None, b))
            b += 1
    pairs += [(one, None) for one in range(a, len(best) - 1)]
    return pairs + [(None, one) for one in range(b, len(best[0]) - 1)]


def _counted(prompt: str | None) -> Counter[str] | None:
    return None if prompt is None else Counter(word.casefold() for word in words_of(prompt)[:MOST_WORDS])


def _worth(one: Counter[str] | None, other: Counter[str] | None) -> float:
    """Return the score of a pair: the fraction of words that the prompts share, 0 below `LEAST`; `UNKNOWN` if one is
    None."""
    if one is None or other is None:
        return UNKNOWN
    shared = 2 * (one & other).total() / ((one.total() + other.total()) or 1)
    return shared if shared >= LEAST else 0.0


class Figure(NamedTuple):
    name: str
    left: str
    """Empty if it is not known."""
    right: str
    difference: str
    """Right minus left, with its sign; empty if that is not known."""
    worse: bool = False
    better: bool = False
    """`worse` and `better` are set only for errors: of the other figures neither direction is better."""


def figures_of(left: dict[str, Any], right: dict[str, Any]) -> list[Figure]:
    """`left`, `right`: the rows of the sessions."""
    errors = _figure("Errors", left.get("errors"), right.get("errors"), _count)
    more = (right.get("errors") or 0) - (left.get("errors") or 0)
    return [
        _figure("Time", left.get("durationMs"), right.get("durationMs"), spent),
        _figure("Turns", left.get("turns"), right.get("turns"), _count),
        _bounded("Cost", dollars, *(_Side(one.get("costUsd"), is_cost_bound(one)) for one in (left, right))),
        _bounded("Tokens", amount, *(_Side(_tokens(one), bool(one.get(_MORE))) for one in (left, right))),
        _figure("Calls", left.get("calls"), right.get("calls"), _count),
        errors._replace(worse=more > 0, better=more < 0),
        _figure("Files", left.get("files"), right.get("files"), _count),
        _figure("Lines added", left.get("linesAdded"), right.get("linesAdded"), _count),
        _figure("Lines removed", left.get("linesRemoved"), right.get("linesRemoved"), _count),
    ]


def signed(left: float | None, right: float | None, shown: Callable[[Any], str | None]) -> str:
    """Format right minus left, with its sign; empty if that is not known. `shown`: formats a number."""
    if left is None or right is None:
        return ""
    size = shown(abs(right - left))
    if size is None or size == shown(0):
        return size or ""
    return f"{'+' if right > left else '−'}{size}"


def _figure(name: str, left: float | None, right: float | None, shown: Callable[[Any], str | None]) -> Figure:
    ours, theirs = ("" if one is None else shown(one) or "" for one in (left, right))
    return Figure(name, ours, theirs, signed(left, right, shown) if ours and theirs else "")


_MORE = "estimatedOutputTokens"
"""Key of a session whose tokens are a lower bound."""


class _Side(NamedTuple):
    value: float | None
    is_bound: bool

    def shown(self, formatter: Callable[..., str | None]) -> str:
        text = None if self.value is None else formatter(self.value, is_bound=self.is_bound)
        return f"≥ {text}" if text and self.is_bound else text or ""


def _bounded(name: str, shown: Callable[..., str | None], left: _Side, right: _Side) -> Figure:
    """Return a figure whose sides may be lower bounds. Their difference is then not known."""
    if not (left.is_bound or right.is_bound):
        return _figure(name, left.value, right.value, shown)
    return Figure(name, left.shown(shown), right.shown(shown), "")


def _count(number: int) -> str:
    return f"{number:,}"


def _tokens(row: dict[str, Any]) -> int | None:
    given = [row.get("inputTokens"), row.get("outputTokens")]
    return None if given == [None, None] else sum(one or 0 for one in given)


TURN_KINDS = ("turn", "message", "tool-call", "tool-result")
MOST_BYTES = 33_554_432
MOST_TURNS = 100
READ = 1_048_576
PROMPT = 1_200
ANSWER = 1_500
"""Code points of a prompt and of an answer that are shown."""


class Said(NamedTuple):
    text: str
    seq: int
    is_cut: bool

    @classmethod
    def of(cls, text: str, seq: int, most: int) -> Said:
        return cls(text[:most], seq, len(text) > most)


@dataclass(slots=True)
class Turn:
    number: int
    first: int
    """`seq` of its first event."""
    started: int | None
    prompt: Said | None = None
    answer: Said | None = None
    """The main agent's last message."""
    families: Counter[str] = field(default_factory=Counter)
    """Family -> calls."""
    errors: int = 0
    """Number of failed calls, plus one if the turn itself failed."""
    milliseconds: int | None = None
    last: int | None = None
    """Time of the turn's last event, in milliseconds since the epoch."""
    ended: bool = False
    failed: bool = False
    settled: str | None = None
    """Its id, after a provisional end."""

    @property
    def calls(self) -> int:
        return self.families.total()

    @property
    def duration(self) -> int | None:
        """Milliseconds: as the agent states them, else from the first event to the last."""
        if self.milliseconds is None and self.started is not None and self.last is not None:
            return max(self.last - self.started, 0)
        return self.milliseconds


class Turns(NamedTuple):
    turns: list[Turn]
    complete: bool
    """Whether all turns of the session were read to their end."""


async def turns_of(journal: Journal, row: dict[str, Any]) -> Turns:
    """`row`: of the session. Raises `JournalError`."""
    stored, wanted = SessionEvents(journal, [row]), Filter(kind=TURN_KINDS)
    found = _Found()
    after, last, left = journal.oldest - 1, journal.latest, MOST_BYTES
    while after < last and left > 0 and not found.is_full:
        events, after = await stored.read(after, wanted, up_to=last, max_bytes=min(READ, left))
        left -= sum(len(one.body) for one in events)
        await anyio.to_thread.run_sync(found.note, events)
    return Turns(found.turns[:MOST_TURNS], after >= last and not found.is_full)


class _Found:
    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._naming = TurnNaming[Said]()

    @property
    def is_full(self) -> bool:
        return len(self.turns) > MOST_TURNS

    def note(self, events: Iterable[StoredEvent]) -> None:
        for stored in events:
            event = stored.head
            if not event.replay:
                self._note(stored.seq, event)

    def _note(self, seq: int, event: EventHead) -> None:
        is_main = event.agent is None
        prompts = is_main and event.kind == "message" and event.role == "user" and bool(title_of(event.text))
        if event.starts_turn:
            self.turns.append(Turn(len(self.turns) + 1, seq, event.ts, prompt=self._naming.start()))
        elif not self.turns or (prompts and self.turns[-1].ended):
            if prompts:
                self._naming.say(Said.of(event.text, seq, PROMPT), in_turn=False)
            return
        turn = self.turns[-1]
        if turn.settled is not None and event.goes_on and event.turn == turn.settled:
            turn.errors -= turn.failed
            turn.ended, turn.settled, turn.failed = False, None, False
        if event.ts is not None and not turn.ended and (event.kind in TIMED or event.starts_turn):
            turn.last = event.ts if turn.last is None else max(turn.last, event.ts)
        if event.kind == "tool-call":
            turn.families[family_of(event.name)] += 1
            self._naming.act()
        elif event.kind == "tool-result":
            turn.errors += event.is_error
        elif prompts:
            turn.prompt = self._naming.say(Said.of(event.text, seq, PROMPT), in_turn=True) or turn.prompt
        elif event.kind == "message" and is_main and event.role == "assistant" and event.text.strip():
            turn.answer = Said.of(event.text, seq, ANSWER)
            self._naming.act()
        elif event.kind == "turn" and is_main and not event.starts_turn:
            turn.ended = True
            turn.settled = event.turn if event.provisional else None
            turn.last = event.ts if event.ts is not None else turn.last
            turn.errors += (event.state == "failed") - turn.failed
            turn.failed = event.state == "failed"
            turn.milliseconds = event.duration_ms


FILE_KINDS = ("tool-call", "tool-update", "tool-result")
MOST_FILE_BYTES = 67_108_864
MOST_FILES = 60
MOST_LINES = 400
"""Maximum lines of one diff."""
ALL_LINES = 6_000
"""Maximum lines of all diffs."""


Outcome: TypeAlias = Literal["same", "differs", "left", "right", "unknown"]


class Files(NamedTuple):
    known: SessionFiles
    complete: bool
    """Whether all events of the session were read."""


class SideOfFile(NamedTuple):
    """The change of a file by one session."""

    kind: str
    """added, modified, deleted or renamed; empty if the session has not changed it."""
    diff: Markup | None


class ComparedFile(NamedTuple):
    path: str
    outcome: Outcome
    """`left`, `right`: only this session has changed it; `unknown`: both have, but their texts are not both known."""
    left: SideOfFile
    right: SideOfFile
    diff: Markup | None = None
    """Diff from the left session's text of the file to the right one's."""


async def files_of(journal: Journal, row: dict[str, Any]) -> Files:
    """`row`: of the session. Raises `JournalError`."""
    found = SessionFiles(row.get("project") or row.get("cwd"))
    stored, wanted = SessionEvents(journal, [row]), Filter(kind=FILE_KINDS, tool=tuple(FILE_TOOLS))
    after, last, left = journal.oldest - 1, journal.latest, MOST_FILE_BYTES
    while after < last and left > 0:
        events, after = await stored.read(after, wanted, up_to=last, max_bytes=min(READ, left))
        left -= sum(len(one.body) for one in events)
        await anyio.to_thread.run_sync(_note, found, events)
    return Files(found, after >= last and found.complete)


def _note(files: SessionFiles, events: Sequence[StoredEvent]) -> None:
    for stored in events:
        files.note(stored.seq, msgspec.json.decode(stored.body))


def compared_files(left: SessionFiles, right: SessionFiles) -> tuple[list[ComparedFile], int]:
    """Return the files that either session has changed, by path, and how many more there are."""
    return _Comparison(left, right).files()


class _Comparison:
    def __init__(self, left: SessionFiles, right: SessionFiles) -> None:
        self._sides = left, right
        self._changes = [{one.path: one for one in side.changes()} for side in self._sides]
        self._room = ALL_LINES

    def files(self) -> tuple[list[ComparedFile], int]:
        paths = sorted({path for changes in self._changes for path in changes})
        return [self._file(path) for path in paths[:MOST_FILES]], max(len(paths) - MOST_FILES, 0)

    def _file(self, path: str) -> ComparedFile:
        left, right = (changes.get(path) for changes in self._changes)
        if left is None or right is None:
            return ComparedFile(path, "right" if left is None else "left", self._side(0, path), self._side(1, path))
        ours, theirs = (side.text(path) for side in self._sides)
        kinds = SideOfFile(left.kind, None), SideOfFile(right.kind, None)
        if left.kind == right.kind == "deleted" or (ours is not None and ours == theirs):
            return ComparedFile(path, "same", *kinds)
        if ours is not None and theirs is not None:
            return ComparedFile(path, "differs", *kinds, self._rendered(_between(ours, theirs), path))
        return ComparedFile(path, "unknown", self._side(0, path), self._side(1, path))

    def _side(self, at: int, path: str) -> SideOfFile:
        """Return the change of a file by one session, with its diff."""
        change = self._changes[at].get(path)
        known = None if change is None else self._sides[at].diff(path)
        if change is None or known is None or not known.hunks:
            return SideOfFile("" if change is None else change.kind, None)
        return SideOfFile(change.kind, self._rendered(hunks_of_diff(known.diff), path))

    def _rendered(self, hunks: list[DiffHunk], path: str) -> Markup:
        shown = cut([FileDiff.of(path, "", hunks)], max(min(MOST_LINES, self._room), 0))
        self._room -= sum(len(hunk.lines) for change in shown for hunk in change.hunks)
        return template("diff.html", changes=shown, hidden_files=0, parts=[], tags=TAGS)


def _between(old: str, new: str) -> list[DiffHunk]:
    content = Content.of(old)
    content.become(new, None)
    return hunks_of_diff("\n".join(unified(hunks_of(content)[0])))


Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
CHOICES = 200
"""Number of newest sessions in the form."""


class CompareQuery(msgspec.Struct, kw_only=True, frozen=True):
    left: Name = ""
    right: Name = ""


class Choice(NamedTuple):
    session: str
    label: str
    """Name of the session."""
    who: str
    """Folder, agent and model of the session."""
    ts: int | None
    address: str
    """Address of the session's comparison with the left one."""


class Side(NamedTuple):
    """The heading of one session's column."""

    session: str
    name: str
    who: str
    words: str
    status: str
    address: str
    ts: int | None


class PairOfTurns(NamedTuple):
    left: Turn | None
    right: Turn | None
    is_same: bool
    """True if both prompts are the same."""


class Comparison(NamedTuple):
    left: Side
    right: Side
    swapped: str
    """The address with the sides exchanged."""
    figures: list[Figure]
    pairs: list[PairOfTurns]
    unknown_prompts: bool
    """True if the prompt of a turn is in no event."""
    more_turns: bool
    """True if there are turns that were not read."""
    files: list[ComparedFile]
    more_files: int
    all_changes: bool
    """True if all changes of files were read."""


def routes(services: Services) -> list[BaseRoute]:
    return [PageRoute("/compare", _Compare(services.journal).page)]


class _Compare:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def page(self, request: Request) -> Response:
        query = query_of(request, CompareQuery)
        left, right = await self._row(query.left), await self._row(query.right)
        unknown = [name for name, row in ((query.left, left), (query.right, right)) if name and row is None]
        for name in unknown:
            check_not_lost(self._journal, name)
        comparison = None
        names = await project_names(self._journal)
        if left is not None and right is not None and query.left != query.right:
            comparison = await self._comparison(left, right, names)
        rows = await self._journal.sessions(limit=CHOICES, order="time", wanted=WITH_CONTENT)
        return await html(
            "compare.html",
            404 if unknown else 200,
            query=query,
            left=None if left is None else _side(left, names),
            unknown=unknown,
            comparison=comparison,
            choices=_choices(rows, left, [one for one in (left, right) if one is not None], names),
            least=round(100 * LEAST),
            preferences=preferences_of(request),
            tools=sorted(TOOL_CARDS),
            here=_address(query.left, query.right),
        )

    async def _row(self, session: str) -> dict[str, Any] | None:
        return await row_of(self._journal, session) if session else None

    async def _comparison(self, left: dict[str, Any], right: dict[str, Any], names: ProjectNames) -> Comparison:
        turns = [await turns_of(self._journal, row) for row in (left, right)]
        files = [await files_of(self._journal, row) for row in (left, right)]
        pairs = await anyio.to_thread.run_sync(_pairs, turns[0], turns[1])
        compared, more = await anyio.to_thread.run_sync(compared_files, files[0].known, files[1].known)
        return Comparison(
            _side(left, names),
            _side(right, names),
            _address(right["session"], left["session"]),
            figures_of(left, right),
            pairs,
            any(one.prompt is None for side in turns for one in side.turns),
            not all(one.complete for one in turns),
            compared,
            more,
            all(one.complete for one in files),
        )


def _pairs(left: Turns, right: Turns) -> list[PairOfTurns]:
    prompts = [[one.prompt and one.prompt.text for one in side.turns] for side in (left, right)]
    pairs = []
    for a, b in aligned(*prompts):
        one, other = None if a is None else left.turns[a], None if b is None else right.turns[b]
        is_same = (
            one is not None
            and other is not None
            and one.prompt is not None
            and other.prompt is not None
            and one.prompt.text == other.prompt.text
        )
        pairs.append(PairOfTurns(one, other, is_same))
    return pairs


def _side(row: dict[str, Any], names: ProjectNames) -> Side:
    status = status_of(row)
    address = session_url(row["session"])
    words = STATUSES.get(status, status)
    return Side(row["session"], name_of(row), _who(row, names), words, status, address, row.get("firstTs"))


def _who(row: dict[str, Any], names: ProjectNames) -> str:
    parts = [names.of(row), f"{product(row['provider'])} {row.get('model') or ''}".strip()]
    return " · ".join(part for part in parts if part)


def _choices(
    rows: list[dict[str, Any]],
    left: dict[str, Any] | None,
    chosen: list[dict[str, Any]],
    names: ProjectNames,
) -> list[tuple[str, list[Choice]]]:
    """Return the sessions to choose from, in groups: those of the left session's project first."""
    listed = {row["session"] for row in rows}
    rows = [*(row for row in chosen if row["session"] not in listed), *rows]
    groups = [("Newest sessions", rows)]
    if left is not None and folder_of(left):
        same = [row for row in rows if folder_of(row) == folder_of(left)]
        others = [row for row in rows if folder_of(row) != folder_of(left)]
        groups = [(f"In {names.of(left)}", same), ("Other sessions", others)]
    return [(name, [_choice(row, left, names) for row in group]) for name, group in groups]


def _choice(row: dict[str, Any], left: dict[str, Any] | None, names: ProjectNames) -> Choice:
    address = _address("" if left is None else left["session"], row["session"])
    return Choice(row["session"], name_of(row), _who(row, names), row.get("lastTs"), address)


def _address(left: str, right: str) -> str:
    given = {name: value for name, value in (("left", left), ("right", right)) if value}
    return f"/compare?{urlencode(given)}" if given else "/compare"
