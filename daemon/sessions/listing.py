"""Lists of sessions: their filters and order, the name and status of each session, and which sessions run.

Sessions and open calls are the JSON objects of the replies to `sessions` and `calls`, so that commands and pages share
this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeAlias

SessionOrder: TypeAlias = Literal["seq", "time"]
"""Newest first: by the last event's `seq`, or by when it happened."""


FACETS = ("status", "provider", "project")
"""Keys of a session whose values are counted."""
NAMED = ("session", "host", *FACETS)
"""Keys of a session of which a filter has values."""
THIS_MACHINE = "."
"""Value of a filter by host for sessions that come from no remote, whose name cannot be this."""
MOST_COUNTED = 1_000
"""Maximum values that are counted of a key: those with the most sessions."""


MOST_ABOVE = 3
"""Maximum folders above a project's that its name shows."""
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class SessionPlace(NamedTuple):
    """Position of a session in a list. The order of time compares both fields, that of `seq` only `last_seq`."""

    last_seq: int
    last_ts: int = 0
    """0 for a session whose events have no time."""

    @classmethod
    def of_cursor(cls, cursor: str) -> Self:
        """Raises `ValueError`."""
        if (found := _CURSOR.fullmatch(cursor)) is None:
            raise ValueError(cursor)
        return cls(int(found[1]), int(found[2]))

    @property
    def cursor(self) -> str:
        return f"{self.last_seq}-{self.last_ts}"

    def key(self, order: SessionOrder) -> tuple[int, ...]:
        return (self.last_seq,) if order == "seq" else (self.last_ts, self.last_seq)


class SessionFilter(NamedTuple):
    """Sessions match all of the keys that are not None, and any of the values of a key."""

    session: tuple[str, ...] | None = None
    status: tuple[str, ...] | None = None
    provider: tuple[str, ...] | None = None
    project: tuple[str, ...] | None = None
    since: int | None = None
    """Minimum time of the last activity, inclusive, in milliseconds since the epoch."""
    until: int | None = None
    """Maximum time of the first activity, exclusive. So a session is found by every day that it touches."""
    changed_after: int | None = None
    """Only sessions with events after this `seq`."""
    origin: tuple[str, ...] | None = None
    """Only sessions that come from one of these: they were forked from it, continue it, or were started by it."""
    host: tuple[str, ...] | None = None
    """Only sessions of these remotes, or of `THIS_MACHINE`."""
    with_empty: bool = True
    """Also sessions in which nothing was asked, said or done."""
    earlier_id: tuple[str, ...] | None = None
    """Only sessions that have had one of these ids before the present one."""

    def matches(self, session: Mapping[str, Any]) -> bool:
        """`session`: as `SessionRow.describe` returns it."""
        last = session.get("lastTs", 0)
        return (
            all((wanted := getattr(self, key)) is None or session.get(key) in wanted for key in NAMED if key != "host")
            and (self.host is None or host_of(session) in self.host)
            and (self.since is None or last >= self.since)
            and (self.until is None or session.get("firstTs", last) < self.until)
            and (self.changed_after is None or session["lastSeq"] > self.changed_after)
            and (self.origin is None or any(session.get(key) in self.origin for key in _ORIGINS))
            and (self.with_empty or not session.get("empty"))
            and (self.earlier_id is None or any(one in session.get("aliases", ()) for one in self.earlier_id))
        )


def stored_names(session: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids under which events of a session are stored. `session`: its row in a `sessions` reply."""
    return session["session"], *session.get("aliases", {})


def is_of(session: Mapping[str, Any], name: str, seq: int) -> bool:
    """Return whether an event that is stored under one of `stored_names` is of the session: other sessions may have had
    the same id, before or later."""
    own: str = session["session"]
    last: int = session.get("aliases", {}).get(name, 0)
    return name == own or session.get("firstSeq", 0) <= seq <= last


NO_INTACT_ROW = "the journal is damaged, and has no intact row of a session {!r}"


def why_lost(journal: Mapping[str, Any], session: str) -> str:
    """Return the sentence that says that a session which is not found may be one that the journal has lost; "" if the
    row of no session is damaged. `journal`: its figures in a `stats` reply."""
    if journal.get("damagedSessions"):
        return NO_INTACT_ROW.format(session[:200])
    return ""


PINNED = {"pinned": True}
"""What the row of a pinned session has besides."""
ANY_SESSION = SessionFilter()
WITH_CONTENT = SessionFilter(with_empty=False)
"""The sessions that are listed unless a reader asks for others."""


def place_of(session: Mapping[str, Any]) -> SessionPlace:
    return SessionPlace(session["lastSeq"], session.get("lastTs", 0))


def host_of(row: Mapping[str, Any]) -> str:
    """Return the host of a session as filters name it."""
    return row.get("host") or THIS_MACHINE


def machine_name(host: str) -> str:
    """Return a host, as filters name it, for people."""
    return "This machine" if host == THIS_MACHINE else host


# -- name and status --------------------------------------------------------------------------------------------------


def name_of(row: Mapping[str, Any]) -> str:
    """Return the name by which a session is shown: its title, or else its project, or else its id. `row`: as in a
    `sessions` reply."""
    return row.get("title") or project_of(row) or str(row["session"])


def project_of(row: Mapping[str, Any]) -> str:
    """Return the name of a session's project: its folder, without the path; empty if it is not known."""
    return folder_name(folder_of(row))


def folder_of(row: Mapping[str, Any]) -> str:
    """Return the folder of a session's project; empty if it is not known."""
    return str(row.get("project") or row.get("cwd") or "")


def folder_name(path: str) -> str:
    return path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]


def names_of(folders: Iterable[str]) -> dict[str, str]:
    """Return a name for each folder of a list: its own, after those of the folders above it as far as they are needed
    to tell it from the others."""
    named = {one: [part for part in one.replace("\\", "/").split("/") if part] for one in folders}
    names = {one: folder_name(one) for one in named}
    for length in range(2, 2 + MOST_ABOVE):
        times = Counter(names.values())
        for folder, parts in named.items():
            if times[names[folder]] > 1:
                names[folder] = "/".join(parts[-length:])
    return names


class ProjectNames:
    """Names of projects that tell each of `folders` from the others."""

    def __init__(self, folders: Iterable[str]) -> None:
        self.of_folder = names_of(folders)

    def of(self, row: dict[str, Any]) -> str:
        """Return the name of a session's project; empty if it is not known."""
        return self.of_folder.get(folder_of(row)) or project_of(row)

    def folders(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the folders with these names, unique or short; a name that none has stands for itself."""
        found = [one for one, name in self.of_folder.items() if name in names or folder_name(one) in names]
        return tuple(found or names)


STATUSES = {
    "running": "Running",
    "waiting": "Waiting for you",
    "failed": "Failed",
    "completed": "Done",
    "interrupted": "Interrupted",
    "unknown": "Unknown format",
}
"""Status of a session -> its label."""
RUNNING = ("running", "waiting")
"""Statuses of sessions that are running: their agents work, or wait for a person. They can change without an event of
the session: its stream ends or is suspended."""


_ORIGINS = {
    "forkedFrom": ("forked from", "forked as"),
    "resumes": ("continues", "continued as"),
    "parent": ("started by", "started"),
}
"""Key of a session -> what the session that it names is to this one, and this one to that."""


class Relation(NamedTuple):
    words: str
    session: str


def origins_of(row: dict[str, Any]) -> list[Relation]:
    """Return the sessions that a session comes from."""
    return [Relation(words, row[key]) for key, (words, _) in _ORIGINS.items() if row.get(key)]


def successors_of(session: str, rows: Iterable[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group the sessions that come from one, as a list with the filter `origin` has them: the words, and those rows."""
    groups: dict[str, list[dict[str, Any]]] = {words: [] for _, words in _ORIGINS.values()}
    for row in rows:
        for words in [words for key, (_, words) in _ORIGINS.items() if row.get(key) == session][:1]:
            groups[words].append(row)
    return [(words, found) for words, found in groups.items() if found]


class RunningSession(NamedTuple):
    session: dict[str, Any]
    status: Literal["running", "waiting"]
    asked: list[dict[str, Any]]
    """The session's pending permissions and questions, oldest first."""
    calls: list[dict[str, Any]]
    """The session's open calls, oldest first."""

    @property
    def since(self) -> int | None:
        """Return when the current activity began, in milliseconds since the epoch: the oldest request, else the newest
        call, else the last event."""
        latest = self.asked[:1] or self.calls[-1:]
        since: int | None = latest[0].get("ts") if latest else self.session.get("lastTs")
        return since


def find_running(sessions: Sequence[dict[str, Any]], opened: dict[str, Any]) -> list[RunningSession]:
    """Return those of the sessions that run or wait for the user, in the same order. `opened`: the open calls and
    permissions (the result of `calls`)."""
    asked, calls = _by_session(opened["permissions"]), _by_session(opened["calls"])
    found = []
    for session in sessions:
        name = session["session"]
        if session.get("state") != "open":
            continue
        if name in asked:
            found.append(RunningSession(session, "waiting", asked[name], calls.get(name, [])))
        elif status_of(session) == "running":
            found.append(RunningSession(session, "running", [], calls.get(name, [])))
    return found


def status_of(row: dict[str, Any]) -> str:
    """Return the status of a session's work: `running`, `waiting`, …"""
    return str(row["status"])


def asked_text(waiting: Mapping[str, Any]) -> str:
    """Return what is asked: the questions, or else the call for which a permission is asked. `waiting`: as in a reply
    to `waiting`."""
    questions = [str(asked["question"]) for asked in waiting.get("questions") or [] if asked.get("question")]
    call = (waiting.get("name"), waiting.get("preview") or waiting.get("callTitle"))
    return " ".join(questions) or " ".join(str(part) for part in call if part)


def option_names(waiting: Mapping[str, Any]) -> list[str]:
    """Return the names of what one can choose, as far as the agent states them."""
    options = waiting.get("options")
    if not options:
        stated = [asked.get("options") for asked in waiting.get("questions") or []]
        options = [option for of_question in stated if isinstance(of_question, list) for option in of_question]
    named = (option.get("name") or option.get("label") if isinstance(option, dict) else option for option in options)
    return [name for name in named if isinstance(name, str) and name]


def is_live(row: dict[str, Any]) -> bool:
    return status_of(row) in RUNNING


def _by_session(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["session"], []).append(row)
    return found
