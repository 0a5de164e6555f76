"""The tools of `tooltap mcp`: names, descriptions, arguments; and what the user allows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec

RECEIPT = "You get a confirmation only, not the contents."
_Line: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class DisplayTool(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A display tool; its fields are the arguments."""

    NAME: ClassVar[str]
    DESCRIPTION: ClassVar[str]

    @property
    def subject(self) -> str:
        """The thing shown, as the subject of a sentence."""
        raise NotImplementedError


class _FileTool(DisplayTool):
    path: Annotated[
        str, msgspec.Meta(min_length=1, max_length=4_096, description="Absolute, or from the working folder.")
    ]

    @property
    def subject(self) -> str:
        return self.path


class RenderFileContents(_FileTool):
    NAME = "render_file_contents"
    DESCRIPTION = f'Show a text file to the user, for "show me", "cat", "view". {RECEIPT}'

    start_line: _Line = 1
    end_line: _Line | msgspec.UnsetType = msgspec.UNSET


class DisplayImage(_FileTool):
    NAME = "display_image"
    DESCRIPTION = f"Show an image file to the user. {RECEIPT}"


class RunAndDisplay(DisplayTool):
    NAME = "run_and_display"
    DESCRIPTION = (
        'Run a shell command and show its output to the user, for "run the tests", "show the log".'
        " You get the exit code and the number of lines only."
    )

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=32_768)]

    @property
    def subject(self) -> str:
        return "the command"


FILES: tuple[type[DisplayTool], ...] = (RenderFileContents, DisplayImage)
COMMANDS: tuple[type[DisplayTool], ...] = (RunAndDisplay,)


_Days: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=36_500, description="Only the last so many days.")]
_Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class HistoryTool(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A history tool; its fields are the arguments."""

    NAME: ClassVar[str]
    DESCRIPTION: ClassVar[str]


class SearchSessions(HistoryTool):
    NAME = "search_sessions"
    DESCRIPTION = (
        "Search what coding agents said, ran and changed here before, and what came out: an error that was solved"
        " already, a command that worked. Returns sessions and events, newest first."
    )

    query: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=1_000, description='Words and "quoted phrases"; an event has to have all of them.'
        ),
    ]
    tool: Annotated[str, msgspec.Meta(max_length=200, description="Only calls of this tool, such as Bash.")] | None = (
        None
    )
    outcome: Literal["completed", "failed", "denied", "cancelled", "interrupted"] | None = None
    days: _Days | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=40)] = 8


class GetSession(HistoryTool):
    NAME = "get_session"
    DESCRIPTION = "Read a session: what it was about, and its last prompts, messages and calls, a line each."

    session: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    before: Annotated[_Seq, msgspec.Meta(description="Only events before this one.")] | None = None


class GetEvent(HistoryTool):
    NAME = "get_event"
    DESCRIPTION = "Read an event whole: a message, a call, or the output of one. N of tooltap://event/N is its number."

    event: _Seq
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53, description="Characters to skip.")] = 0


class ListWaiting(HistoryTool):
    NAME = "list_waiting"
    DESCRIPTION = "List the sessions that wait for a person: permissions and questions without an answer."


class FilesChanged(HistoryTool):
    NAME = "files_changed"
    DESCRIPTION = "List the files that agents changed here, the one that was changed last first, and in which sessions."

    file: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000, description="A part of the path.")] | None = None
    days: _Days | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


HISTORY: tuple[type[HistoryTool], ...] = (SearchSessions, GetSession, GetEvent, ListWaiting, FilesChanged)


def event_uri(seq: int | str) -> str:
    """Return the address of an event, as a resource."""
    return f"tooltap://event/{seq}"


class Settings(NamedTuple):
    """What the user allows. `session` and `provider`: of the events; None for a new session, and `tooltap`."""

    folders: list[Path]
    """Folders whose files may be shown; the first is the working folder."""
    command_timeout: float | None
    """Seconds; None if commands are not allowed."""
    max_bytes: int
    """Limit for one body."""
    session: str | None
    provider: str | None
    socket: Path | None
    history: bool
    """Whether sessions may be read."""
    projects: list[Path] | None
    """Folders of the projects whose sessions may be read; None for all."""
