"""One session of the journal: `SessionRow`, which `Projection` keeps up to date and every journal stores.

A fact that takes more than one value to compute is a part of the row (`PARTS`), which does not know the row: its state,
`note` for each event of its `KINDS`, and `absorb`, which adds the part of an earlier row of the same session.

`describe` makes the protocol's `Session` of it. Repair decodes rows of damaged journals, so each field has a default.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_type_hints

import msgspec

from tooltap.daemon.sessions.files import FilePart, FileParts, SessionChanges
from tooltap.daemon.sessions.listing import THIS_MACHINE
from tooltap.daemon.sessions.prices import known_prices
from tooltap.daemon.sessions.usage import SessionUsage, Spending, Total, priced
from tooltap.daemon.sessions.worktrees import project_of_path, worktree_in
from tooltap.normalizers.changes.content import split_lines
from tooltap.normalizers.changes.steps import FILE_TOOLS, Step, steps
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.tools.paths import absolute
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import WORK, is_turn_start
from tooltap.protocol.replies import Session, SessionStatus, StreamState, TurnState

# -- the title: the agent's, or else the first prompt, without what programs have put around it ----------------------


MAX_TITLE = 80
"""Maximum code points of a title that is derived from a prompt."""
READ = 16_384
"""Maximum code points of a prompt that are read."""

_WRAPPERS = """
    additional_data attached_files bash-stderr bash-stdout collaboration_mode command-contents command-message
    environment_context environment_details ide_diagnostics ide_opened_file ide_selection instructions
    local-command-caveat local-command-stderr local-command-stdout multi_agent_mode multi_agent_role open_files
    permissions persisted-output session_context skill skills_instructions subagent_notification system
    system-reminder task-notification tools tools-used-before-summary turn_aborted user_instructions
    user-prompt-submit-hook
"""
_DROPPED = frozenset(_WRAPPERS.split())
"""Elements that are removed with their content, which the user did not write."""
_UNWRAPPED = frozenset(("bash-input", "command-args", "command-name", "task", "user_message", "user_query"))
"""Elements whose content is kept without the tags: the user wrote it."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]{1,40})([^<>\n]{0,200})>")
_PLACEHOLDER = re.compile(r"\[(?:Image|Pasted text)(?: #|: )[^\[\]\n]{1,200}\]")
_BEFORE_REQUEST = ("# Context from my IDE setup:", "## My request for Codex:")
_HEADER_OF_INSTRUCTIONS = "# AGENTS.md instructions"
_FENCES = ("```", "~~~")
_NOT_PROMPTS = ("Caveat: The messages below were generated", "[Request interrupted by user")


class Prompt(msgspec.Struct, omit_defaults=True):
    """The first prompt of a session, for its title. A prompt that says less is used until there is a better one: a
    command alone (`/compact`, `! ls`) has rank 1, and a prompt to a subagent rank 2."""

    KINDS: ClassVar = ("message",)

    title: str = ""
    seq: int = 0
    rank: int = 0
    """0 for the best prompts."""

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        if entry.fields.role != "user" or (self.title and not self.rank):
            return
        if title := title_of(entry.fields.text):
            is_command = title.startswith("! ") or (title.startswith("/") and " " not in title)
            self._keep(title, seq, 2 if entry.agent is not None else int(is_command))

    def absorb(self, earlier: Prompt) -> None:
        if earlier.title:
            self._keep(earlier.title, earlier.seq, earlier.rank)

    def _keep(self, title: str, seq: int, rank: int) -> None:
        if not self.title or (rank, seq) < (self.rank, self.seq):
            self.title, self.seq, self.rank = title, seq, rank


def title_of(prompt: str) -> str:
    """Return a prompt on one line of at most `MAX_TITLE` code points, cut at a word; empty if the user said nothing in
    it."""
    line = " ".join(words_of(prompt))
    if len(line) <= MAX_TITLE:
        return line
    cut = line[:MAX_TITLE].rfind(" ")
    return line[: cut if cut > MAX_TITLE // 2 else MAX_TITLE - 1] + "…"


def first_line_of(prompt: str) -> str:
    """Return the first line of a prompt that says something, of at most `MAX_TITLE` code points; empty if the user said
    nothing in it. The fence of a block of code says nothing."""
    said = (line for line in _said_in(prompt).splitlines() if not line.lstrip().startswith(_FENCES))
    lines = (" ".join(_without_marks(line.split())) for line in said)
    line = next(filter(None, lines), "")
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1].rstrip() + "…"


def words_of(prompt: str) -> list[str]:
    """Return the user's words in a prompt, without what programs have added around them; none if it is not a user's
    prompt."""
    return _without_marks(_said_in(prompt).split())


def _said_in(prompt: str) -> str:
    text = prompt[:READ].lstrip()
    if text.startswith(_NOT_PROMPTS):
        return ""
    if text.startswith(_BEFORE_REQUEST[0]):
        text = text.partition(_BEFORE_REQUEST[1])[2] or text
    if text.startswith(_HEADER_OF_INSTRUCTIONS):
        text = text.partition("\n")[2]
    return _PLACEHOLDER.sub(" ", _without_wrappers(text))


def _without_marks(words: list[str]) -> list[str]:
    """Remove the marks of a heading, a quote or a list before the first word."""
    while words and not words[0].strip("#>*-"):
        del words[0]
    return words


def _without_wrappers(text: str) -> str:
    kept: list[str] = []
    reached = 0
    while (tag := _TAG.search(text, reached)) is not None:
        is_end, name, rest = tag.groups()
        key = name.lower()
        kept.append(text[reached : tag.start()])
        reached = tag.end()
        if key in _DROPPED and not is_end:
            end = f"</{name}{rest if key == 'permissions' else ''}>"
            found = text.find(end, reached)
            reached = len(text) if found < 0 else found + len(end)
        elif key in _DROPPED or key in _UNWRAPPED:
            kept.append(" ")
        else:
            kept.append(tag[0])
    kept.append(text[reached:])
    return "".join(kept)


# -- changed files and lines -----------------------------------------------------------------------------------------


# Lines are counted call by call, so that a line that was changed twice counts twice. The request `files` compares what
# was before with what is now.


MAX_FILES = 500
"""Maximum files that are counted; later ones are ignored."""
MAX_OPEN = 100
"""Maximum calls without a result that are remembered."""
STATED = ("NotebookEdit", "Patch")
"""Tools whose results may state the change that their calls do not."""


class FileChange(msgspec.Struct, array_like=True):
    file: int
    """CRC-32 of the file's path."""
    added: int
    removed: int
    path: str = ""
    """The path; empty in rows of older versions."""
    seq: int = 0
    """`seq` of the call."""


class Changes(msgspec.Struct, omit_defaults=True):
    KINDS: ClassVar = ("session", "tool-call", "tool-update", "tool-result")

    cwd: str | None = None
    """The session's first `cwd`: paths may be relative to it."""
    files: set[int] = set()
    """CRC-32 of the paths of changed files."""
    added: int = 0
    removed: int = 0
    open: dict[str, list[FileChange]] = {}
    """Id of an open call -> the changes that it states."""
    parts: FileParts = msgspec.field(default_factory=FileParts)
    """The changes by file and time. Rows of older versions have none."""

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        if entry.kind == "session":
            self.cwd = self.cwd or entry.fields.cwd
        elif entry.tool in FILE_TOOLS and entry.tool != "Read":
            if entry.kind == "tool-result":
                self._close(seq, ts, entry)
            elif entry.fields.input is not None:
                self._open(seq, entry)

    def absorb(self, earlier: Changes) -> None:
        self.cwd = earlier.cwd or self.cwd
        self.files = set(sorted(self.files | earlier.files)[:MAX_FILES])
        self.added += earlier.added
        self.removed += earlier.removed
        self.open = {**earlier.open, **self.open}
        self.parts.absorb(earlier.parts)

    @property
    def has_all_parts(self) -> bool:
        """Return whether `parts` has all files that were changed."""
        return len(self.files) < MAX_FILES and len(self.parts.of_path) >= len(self.files)

    @property
    def lacks_parts(self) -> bool:
        """Return whether an older version, which had no parts, has noted some of the changes."""
        return len(self.parts.of_path) < len(self.files) and not self.parts.is_full

    def _open(self, seq: int, entry: Produced) -> None:
        call_id = entry.fields.call_id
        found = self._changes(seq, entry.tool or "", entry.fields.input, {})
        if found and (call_id in self.open or len(self.open) < MAX_OPEN):
            self.open[call_id] = found

    def _close(self, seq: int, ts: int | None, entry: Produced) -> None:
        result = entry.fields
        if result.async_:
            return
        changes = self.open.pop(result.call_id, [])
        if result.status != "completed" or result.output.get("applied") is False:
            return
        if stated := _stated(result.output):
            changes = [FileChange(one.file, *stated, one.path, one.seq) for one in changes[:1]]
        elif entry.tool in STATED and (of_result := self._changes(seq, entry.tool, {}, result.output)):
            changes = of_result
        for change in changes:
            if change.file in self.files or len(self.files) < MAX_FILES:
                self.files.add(change.file)
                self.added += change.added
                self.removed += change.removed
                if change.path:
                    self.parts.add(change.path, FilePart(ts, change.seq, 1, change.added, change.removed))

    def _changes(self, seq: int, name: str, given: dict[str, Any], answer: dict[str, Any]) -> list[FileChange]:
        """Return one change for each file, also if a patch has several hunks and a new path for it. `seq`: of the
        call."""
        found: dict[str, FileChange] = {}
        for step in steps(name, given, answer):
            change = found.pop(step.path, FileChange(0, 0, 0))
            path = step.to or step.path
            added, removed = _lines(step)
            whole = absolute(path, self.cwd)
            file = zlib.crc32(whole.encode("utf-8", "surrogatepass"))
            found[path] = FileChange(file, change.added + added, change.removed + removed, whole, seq)
        return list(found.values())


def _lines(step: Step) -> tuple[int, int]:
    """Return the numbers of lines added and removed."""
    if step.kind == "write":
        return _difference(step.before or "", step.text or "")
    if step.kind == "delete":
        return 0, len(split_lines(step.before or ""))
    if step.kind == "patch":
        marks = Counter(line[:1] for part in step.parts for line in part.lines)
        return marks["+"], marks["-"]
    return _difference(step.old, step.new)


def _difference(old: str, new: str) -> tuple[int, int]:
    before, after = Counter(split_lines(old)), Counter(split_lines(new))
    return (after - before).total(), (before - after).total()


def _stated(output: dict[str, Any]) -> tuple[int, int] | None:
    """Return the lines added and removed by the hunks of a result; None without hunks. They have what the call does not
    state: how often a text was replaced, and what was overwritten."""
    hunks = output.get("structuredPatch")
    if not isinstance(hunks, list) or not hunks:
        return None
    lines = [line for hunk in hunks if isinstance(hunk, dict) for line in hunk.get("lines") or () if type(line) is str]
    marks = Counter(line[:1] for line in lines)
    return marks["+"], marks["-"]


# -- the row, and its other parts ------------------------------------------------------------------------------------


_CONTENT = frozenset({"message", "permission-request", "reasoning"})
"""Kinds of events that are the content of a session, beside turns and calls. Of messages those of the agent, and the
user's own words."""
UNENDED: tuple[StreamState, ...] = ("open", "suspended")
DESCRIPTION = ("agent_version", "model", "title", "cwd", "branch")
"""Columns that hold the latest value of `session` events."""
ORIGINS = ("forked_from", "resumes", "parent")
"""Columns that name a session which this one comes from."""
MAX_MODELS = 16
MAX_ALIASES = 100


_OUTCOMES: dict[TurnState | None, SessionStatus] = {
    "started": "running",
    "failed": "failed",
    "cancelled": "interrupted",
    "completed": "completed",
    None: "completed",
}


class Settled(msgspec.Struct, array_like=True):
    """A turn with a provisional end, which counts until the turn goes on or ends for good."""

    turn: str
    since: int | None
    """Its start, in milliseconds since the epoch."""
    milliseconds: int | None
    """Its duration, as counted."""


Pending: TypeAlias = Literal["", "request", "dialog"]
"""What waits for a person in a session: nothing, or requests without a response; `dialog`, if a hook has told of one,
which is open in the agent's own window, whether or not a stream is."""


class Work(msgspec.Struct, omit_defaults=True):
    """Progress of the work: the main agent's turns, the time they took, what failed, and the status."""

    KINDS: ClassVar = ("turn", "tool-result", *sorted(WORK))

    turn: TurnState | None = None
    """State of the last turn."""
    turns: int = 0
    errors: int = 0
    """Number of calls and turns that failed."""
    milliseconds: int | None = None
    """Duration of the turns that have ended; None if none is known."""
    since: int | None = None
    """Start of the open turn, in milliseconds since the epoch."""
    settled: Settled | None = None

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        kind = entry.kind
        if kind == "tool-result":
            self.errors += entry.fields.is_error
        elif entry.agent is None:
            if kind == "turn":
                self._note_turn(ts, entry)
            elif self.settled is not None and entry.turn == self.settled.turn:
                self._reopen()

    def _note_turn(self, ts: int | None, entry: Produced) -> None:
        if self.settled is not None and entry.turn == self.settled.turn:
            self._reopen()
        self.turn = entry.fields.state
        if is_turn_start(self.turn, entry.agent):
            self.turns += 1
            self.since = ts
            self.settled = None
            return
        self.errors += self.turn == "failed"
        spent = entry.fields.duration_ms
        if spent is None and self.since is not None and ts is not None:
            spent = max(ts - self.since, 0)
        if entry.fields.provisional and entry.turn is not None:
            self.settled = Settled(entry.turn, self.since, spent)
        if spent is not None:
            self.milliseconds = (self.milliseconds or 0) + spent
        self.since = None

    def _reopen(self) -> None:
        """Take the provisional end of the last turn back."""
        settled, self.settled = self.settled, None
        if settled is None:
            return
        self.errors -= self.turn == "failed"
        self.turn, self.since = "started", settled.since
        if settled.milliseconds is not None and self.milliseconds is not None:
            self.milliseconds -= settled.milliseconds

    def absorb(self, earlier: Work) -> None:
        if self.turn is None:
            self.turn, self.since, self.settled = earlier.turn, earlier.since, earlier.settled
        self.turns += earlier.turns
        self.errors += earlier.errors
        if earlier.milliseconds is not None:
            self.milliseconds = (self.milliseconds or 0) + earlier.milliseconds

    def duration(self, first: int | None, last: int | None) -> int | None:
        """Return the milliseconds of all turns, the open one until `last`. If no turn has a time: from `first` to
        `last`."""
        if last is not None and self.since is not None:
            return (self.milliseconds or 0) + max(last - self.since, 0)
        if self.milliseconds is None and first is not None and last is not None:
            return last - first
        return self.milliseconds

    def outcome(self, *, ended: bool) -> SessionStatus:
        """Return the status that follows from events alone. `running` holds only while a stream of the session is open;
        else the session is `interrupted`. `ended`: the agent has reported the end."""
        return "interrupted" if ended and self.turn == "started" else _OUTCOMES[self.turn]


MAX_SLICES = 24
NARROWEST = 1_000
"""Minimum width of a slice, in milliseconds."""


class Activity(msgspec.Struct, omit_defaults=True):
    """Tool calls by family, in total and in slices of the session's time.

    The width of a slice is a second times a power of two, and a slice begins at a multiple of it. So the slices are the
    same in whatever order calls come, and rows of the same session can be added.
    """

    KINDS: ClassVar = ("tool-call",)

    families: dict[str, int] = {}
    """Family -> number of calls."""
    width: int = NARROWEST
    slices: dict[int, dict[str, int]] = {}
    """Start of a slice, in widths since the epoch -> calls by family. Slices without calls are left out, and all are
    within `MAX_SLICES`."""

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        family = family_of(entry.tool)
        self.families[family] = self.families.get(family, 0) + 1
        if ts is not None:
            _add(self.slices, ts // self.width, {family: 1})
            self._widen()

    def absorb(self, earlier: Activity) -> None:
        for family, calls in earlier.families.items():
            self.families[family] = self.families.get(family, 0) + calls
        width = max(self.width, earlier.width)
        merged = _merged(self.slices, width // self.width)
        for start, families in earlier.slices.items():
            _add(merged, start * earlier.width // width, families)
        self.slices, self.width = merged, width
        self._widen()

    def over(self, first: int, last: int) -> tuple[list[dict[str, int]], int]:
        """Return the slices from `first` to `last`, in milliseconds since the epoch, and their width. No slices if no
        call has a time."""
        if not self.slices:
            return [], self.width
        width = self.width
        first, last = min(first, min(self.slices) * width), max(last, max(self.slices) * width)
        while last // width - first // width >= MAX_SLICES:
            width *= 2
        slices = _merged(self.slices, width // self.width)
        return [slices.get(start, {}) for start in range(first // width, last // width + 1)], width

    def _widen(self) -> None:
        while max(self.slices, default=0) - min(self.slices, default=0) >= MAX_SLICES:
            self.slices = _merged(self.slices, 2)
            self.width *= 2


def _merged(slices: dict[int, dict[str, int]], count: int) -> dict[int, dict[str, int]]:
    merged: dict[int, dict[str, int]] = {}
    for start, families in slices.items():
        _add(merged, start // count, families)
    return merged


def _add(slices: dict[int, dict[str, int]], start: int, families: dict[str, int]) -> None:
    counts = slices.setdefault(start, {})
    for family, calls in families.items():
        counts[family] = counts.get(family, 0) + calls


def _is_late(entry: Produced) -> bool:
    """Return whether an event says nothing of a session that has ended but what it was: its facts, or, in a file that
    is read after the tap, what it has used."""
    if entry.kind == "usage":
        return entry.fields.beside is not None
    return entry.kind == "session" and entry.fields.state == "updated"


class SessionRow(msgspec.Struct, omit_defaults=True, kw_only=True):
    provider: str
    host: str | None = None
    """The remote that it comes from."""
    first_seq: int
    last_seq: int
    worked_seq: int = 0
    """`seq` of the last event that is more than a late fact (`_is_late`); 0: there was none yet."""
    first_ts: int | None = None
    last_ts: int | None = None
    events: int = 0
    calls: int = 0
    ended: bool = False
    """The provider reported the end, and no event has followed."""
    has_content: bool = False
    """Something was said or done outside any turn."""
    has_unread: bool = False
    """Lines could not be read."""
    agent_version: str | None = None
    model: str | None = None
    title: str | None = None
    cwd: str | None = None
    branch: str | None = None
    home: str | None = None
    """The session's first `cwd`."""
    root: str | None = None
    """Folder of the repository around `home`."""
    forked_from: str | None = None
    """The session whose history this one begins with."""
    parent: str | None = None
    """The session that started this one."""
    resumes: str | None = None
    """The session that this one continues under a new id."""
    aliases: dict[str, int] = {}
    """Ids under which earlier events of the session are stored -> the `seq` of the event that named the session."""
    models: list[str] = []
    """Models in the order of their first use."""
    prompt: Prompt = msgspec.field(default_factory=Prompt)
    work: Work = msgspec.field(default_factory=Work)
    activity: Activity = msgspec.field(default_factory=Activity)
    changes: Changes = msgspec.field(default_factory=Changes)
    used: SessionUsage = msgspec.field(default_factory=SessionUsage)

    def note(self, seq: int, entry: Produced) -> None:
        """Add an event: the facts that every event has, and those that the parts collect."""
        self.provider = entry.provider
        if not _is_late(entry):
            self.ended = False
            self.worked_seq = seq
        self.last_seq = seq
        self.events += 1
        if not self.has_content and entry.kind in _CONTENT:
            self.has_content = entry.kind != "message" or entry.fields.role == "assistant"
        self.has_unread |= entry.kind == "unparsed"
        ts = entry.ts
        self._add_stamps(ts, ts)
        for part in _PARTS_OF.get(entry.kind, ()):
            getattr(self, part).note(seq, ts, entry)

    @property
    def project(self) -> str | None:
        if self.root is not None:
            return project_of_path(self.root, is_repository=True)
        folder = self.home or self.cwd
        return None if folder is None else project_of_path(folder)

    @property
    def worktree(self) -> str | None:
        """The worktree in which the session was started, if its repository is known and has its worktrees inside."""
        return None if self.home is None or self.root is None else worktree_in(self.root, self.home)

    @property
    def outcome(self) -> SessionStatus:
        """See `Work.outcome`."""
        return "unknown" if self.is_unknown else self.work.outcome(ended=self.ended)

    def status(self, *, is_open: bool, pending: Pending) -> SessionStatus:
        """Return the status. `is_open`: a stream of the session is open."""
        if pending:
            return "waiting" if is_open or pending == "dialog" else "interrupted"
        return "interrupted" if self.outcome == "running" and not is_open else self.outcome

    @property
    def is_unknown(self) -> bool:
        """Whether there are lines of the agent, and none of them was understood."""
        return self.has_unread and not (self.has_content or self.work.turn or self.calls)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked, said or done in the session: an agent has only opened it."""
        return not (self.has_content or self.has_unread or self.work.turn or self.calls or self.prompt.title)

    def is_fork_of(self, parent: str) -> bool:
        """Return whether the session is a fork of `parent`, from which it has copied requests. What it continues under
        a new id is its own, and the first fork that is noticed holds."""
        return self.forked_from in (None, parent) and self.resumes is None

    def use_model(self, model: str) -> None:
        if model not in self.models and len(self.models) < MAX_MODELS:
            self.models.append(model)

    def note_alias(self, alias: str, seq: int) -> None:
        """Note that the session's events before `seq` went by another id."""
        if len(self.aliases) < MAX_ALIASES:
            self.aliases[alias] = seq

    def spending(self, name: str) -> Spending:
        """Return the usage and cost of the session `name`. It may take a second: call it in a thread."""
        title = self.title or self.prompt.title or None
        used = self.used
        host = self.host or THIS_MACHINE
        return Spending(
            name, self.provider, self.project, title, priced(used), Total.of(used), used.quota, used.quota_ts, host
        )

    def changed_files(self, name: str) -> SessionChanges:
        """Return what the session `name` changed."""
        title = self.title or self.prompt.title or None
        whole, lacks = self.changes.has_all_parts, self.changes.lacks_parts
        host = self.host or THIS_MACHINE
        return SessionChanges(
            name, self.provider, self.project, self.worktree, title, self.changes.parts, whole, lacks, host
        )

    def describe(self, name: str, streams: Mapping[str, StreamState], *, pending: Pending) -> dict[str, Any]:
        """Return the session as in a `sessions` reply. `streams`: the state of each stream that it is in."""
        states = set(streams.values())
        activity: list[dict[str, int]] = []
        width = 0
        if self.first_ts is not None and self.last_ts is not None:
            activity, width = self.activity.over(self.first_ts, self.last_ts)
        total = Total.of(self.used)
        cost = total.cost
        prices = known_prices() if cost is not None and cost.estimated else None
        session = Session(
            session=name,
            provider=self.provider,
            aliases=self.aliases or None,
            host=self.host,
            agent_version=self.agent_version,
            model=self.model,
            models=self.models or None,
            title=self.title or self.prompt.title or None,
            cwd=self.cwd,
            project=self.project,
            branch=self.branch,
            forked_from=self.forked_from,
            parent=self.parent,
            resumes=self.resumes,
            state=next((one for one in UNENDED if one in states and not self.ended), "ended"),
            status=self.status(is_open="open" in states, pending=pending),
            turn=self.work.turn,
            turns=self.work.turns,
            empty=self.is_empty,
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            first_ts=self.first_ts,
            last_ts=self.last_ts,
            events=self.events,
            calls=self.calls,
            families=self.activity.families or None,
            activity=activity or None,
            activity_ms=width if activity else None,
            errors=self.work.errors,
            files=len(self.changes.files),
            lines_added=self.changes.added,
            lines_removed=self.changes.removed,
            duration_ms=self.work.duration(self.first_ts, self.last_ts),
            streams=sorted(streams),
            cost_usd=None if cost is None else cost.usd,
            known_cost_usd=total.dollars if cost is None else None,
            cost_estimated=total.estimated or None,
            cost_model=None if cost is None else cost.matched,
            prices_date=None if prices is None else prices.date,
            estimated_output_tokens=total.amount.estimated_output_tokens,
            context_used=self.used.context_used,
            context_size=self.used.context_size,
            **{field: getattr(total.amount, field) for field in self.used.reported},
        )
        described: dict[str, Any] = msgspec.to_builtins(session)
        return described

    def complete(self, other: SessionRow) -> None:
        """Fill empty fields from another row of the same session, rebuilt from the events that are left."""
        for field in msgspec.structs.fields(self):
            empty = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            if getattr(self, field.name) == empty:
                setattr(self, field.name, getattr(other, field.name))

    def absorb(self, earlier: SessionRow) -> None:
        """Add an earlier row of the same session: one whose latest work was earlier."""
        if earlier.first_seq < self.first_seq:
            self.first_seq = earlier.first_seq
            if earlier.home is not None:
                self.home, self.root = earlier.home, earlier.root
            self.models = [*earlier.models, *(one for one in self.models if one not in earlier.models)][:MAX_MODELS]
        else:
            if self.home is None:
                self.home, self.root = earlier.home, earlier.root
            for model in earlier.models:
                self.use_model(model)
        self.last_seq = max(self.last_seq, earlier.last_seq)
        self.worked_seq = max(self.worked_seq, earlier.worked_seq)
        self.events += earlier.events
        self.has_content = self.has_content or earlier.has_content
        self.calls += earlier.calls
        self._add_stamps(earlier.first_ts, earlier.last_ts)
        self.forked_from = self.forked_from or earlier.forked_from
        self.parent = self.parent or earlier.parent
        self.resumes = self.resumes or earlier.resumes
        for alias, seq in earlier.aliases.items():
            self.note_alias(alias, max(seq, self.aliases.get(alias, 0)))
        for part in PARTS:
            getattr(self, part).absorb(getattr(earlier, part))
        for field in DESCRIPTION:
            if getattr(self, field) is None:
                setattr(self, field, getattr(earlier, field))

    def _add_stamps(self, first: int | None, last: int | None) -> None:
        if first is not None:
            self.first_ts = first if self.first_ts is None else min(self.first_ts, first)
        if last is not None:
            self.last_ts = last if self.last_ts is None else max(self.last_ts, last)


PARTS = ("prompt", "work", "activity", "used", "changes")
_PARTS_OF: dict[str, list[str]] = {}
for _part in PARTS:
    for _kind in get_type_hints(SessionRow)[_part].KINDS:
        _PARTS_OF.setdefault(_kind, []).append(_part)
