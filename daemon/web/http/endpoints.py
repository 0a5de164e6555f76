"""The endpoints for programs: path, method, what is asked and what is answered. Routes and their description
(`openapi.py`) are made of this table."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from tooltap.daemon.web.http.requests import Filtered
from tooltap.protocol.frames import (
    AnswerRequest,
    ChangedFilesRequest,
    EndedCallsRequest,
    EventRequest,
    Form,
    InterruptRequest,
    OutputRequest,
    SearchRequest,
    SendRequest,
    SessionsRequest,
    StatsRequest,
    UsageRequest,
    WaitingRequest,
)
from tooltap.protocol.replies import (
    AnswerResult,
    ChangedFilesResult,
    EndedCallsResult,
    EventResult,
    FilesResult,
    OutputResult,
    SearchResult,
    SendResult,
    SessionsResult,
    UsageResult,
    WaitingResult,
)
from tooltap.protocol.schema import REF, Schema


class EventsQuery(Filtered, kw_only=True, frozen=True, omit_defaults=True):
    after: str | None = None
    """Cursor, as in a subscription. Default: `now` for server-sent events, else `start`."""
    before: str | None = None
    """A `seq`, or `now`: the page goes backwards from there."""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Events in a page: at most 1,000, which is the default."""
    as_: Form = msgspec.field(default="events", name="as")
    """`display`: what a user interface shows of each event."""
    partials: bool = False
    """Only for server-sent events: also the text of messages that are being written."""


class AgUiQuery(msgspec.Struct, kw_only=True, omit_defaults=True):
    after: str | None = None
    """Cursor, as in a subscription. Default: `start`."""
    partials: bool = True
    """Whether a text is sent while the model writes it."""


class RunAgentInput(msgspec.Struct, rename="camel", omit_defaults=True):
    """What AG-UI's clients send to run an agent; its other keys have no effect."""

    resume: tuple[dict[str, Any], ...] = ()
    """Answers to interrupts: each `{interruptId, status, payload?}`. If there are any, no message is sent."""
    messages: tuple[dict[str, Any], ...] = ()
    """The last one is sent to the agent, and is the user's."""


class FilesQuery(msgspec.Struct, omit_defaults=True):
    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None
    """One file, with its diffs."""


class JsonOutput(OutputRequest, kw_only=True, tag="output"):
    format: Literal["json"] | None = None
    """With `json`, the body is a part of a JSON object, as on the socket."""


class Endpoint(NamedTuple):
    """`name`: of the method of `api.py` that answers it."""

    name: str
    path: str
    """With `{parameters}`; those of the types `:path` and `:any` may have slashes."""
    does: str
    query: type[msgspec.Struct] | None = None
    """What the query says, less what the path says."""
    body: type[msgspec.Struct] | None = None
    """The JSON object that is sent."""
    result: Schema | type[msgspec.Struct] | None = {"type": "object"}  # noqa: RUF012
    """The JSON object that is answered; None if `other` is all there is."""
    method: str = "GET"
    other: str | None = None
    """Another MIME type of the answer."""


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_PAGE = _object(
    events={"type": "array", "items": {"anyOf": [{"$ref": f"{REF}AnyEvent"}, {"$ref": f"{REF}AnyDisplayEvent"}]}},
    next={**_NUMBER, "description": "The next page continues from here: `after`, or `before` for a page backwards."},
    more={"type": "boolean", "description": "Whether there is another page."},
    journal={**_TEXT, "description": "Id of the journal."},
)
_GAP = _object(reason={"enum": ["retention", "reset", "corrupt"]}, to=_NUMBER)
_GAP["properties"]["from"] = _NUMBER
_GAP["description"] = "Events that are missing in this page."
_PAGE["properties"]["gap"] = _GAP
_LOGIN = _object(id=_TEXT, browser=_TEXT, address=_TEXT, created=_NUMBER, used=_NUMBER, ends=_NUMBER)
STREAM = "text/event-stream"

ENDPOINTS = (
    Endpoint("sessions", "/api/sessions", "Sessions, newest first.", SessionsRequest, result=SessionsResult),
    Endpoint(
        "files",
        "/api/sessions/{session:any}/files",
        "The files that a session changed; of one file also the diffs.",
        FilesQuery,
        result=FilesResult,
    ),
    Endpoint(
        "changed_files",
        "/api/files",
        "The files that all sessions changed.",
        ChangedFilesRequest,
        result=ChangedFilesResult,
    ),
    Endpoint(
        "search",
        "/api/search",
        "The events that contain all the words of a query, and the sessions that they are in.",
        SearchRequest,
        result=SearchResult,
    ),
    Endpoint(
        "calls",
        "/api/calls",
        "The calls of all sessions that ended, newest first.",
        EndedCallsRequest,
        result=EndedCallsResult,
    ),
    Endpoint("waiting", "/api/waiting", "What waits for a person.", WaitingRequest, result=WaitingResult),
    Endpoint(
        "answer",
        "/api/answer",
        "Answer a question of an agent; the first answer wins.",
        body=AnswerRequest,
        result=AnswerResult,
        method="POST",
    ),
    Endpoint("send", "/api/send", "Send a prompt to an agent.", body=SendRequest, result=SendResult, method="POST"),
    Endpoint(
        "interrupt",
        "/api/interrupt",
        "Stop an agent in mid-turn.",
        body=InterruptRequest,
        result=SendResult,
        method="POST",
    ),
    Endpoint("usage", "/api/usage", "Tokens and costs, by day, model, project …", UsageRequest, result=UsageResult),
    Endpoint(
        "events",
        "/api/events",
        "A page of events, or, with `Accept: text/event-stream`, events as they come.",
        EventsQuery,
        result=_PAGE,
        other=STREAM,
    ),
    Endpoint(
        "ag_ui",
        "/api/ag-ui/{session:any}",
        "A session as server-sent events of the AG-UI protocol 1.0: what was, and then what comes.",
        AgUiQuery,
        result=None,
        other=STREAM,
    ),
    Endpoint(
        "ag_ui_run",
        "/api/ag-ui/{session:any}",
        "Answer or prompt an agent as AG-UI's clients do, and get the run that follows.",
        body=RunAgentInput,
        result=None,
        method="POST",
        other=STREAM,
    ),
    Endpoint("event", "/api/events/{seq}", "One event, whole.", EventRequest, result=EventResult),
    Endpoint(
        "output",
        "/api/outputs/{output_id:path}",
        "The body of an output, whole or a byte range; with `format=json`, a part of it in a JSON object.",
        JsonOutput,
        result=OutputResult,
        other="application/octet-stream",
    ),
    Endpoint("stats", "/api/stats", "The daemon's statistics, for people and for monitoring.", StatsRequest),
    Endpoint(
        "logins",
        "/api/logins",
        "The browsers that are logged in.",
        result=_object(logins={"type": "array", "items": _LOGIN}),
    ),
    Endpoint(
        "link", "/api/logins", "Make a link that logs one browser in, once.", result=_object(link=_TEXT), method="POST"
    ),
    Endpoint("end_login", "/api/logins/{login}", "Log a browser out.", method="DELETE"),
    Endpoint("description", "/api/openapi.json", "This description."),
    Endpoint("health", "/healthz", "Whether the daemon can store events.", result=_object(status={"enum": ["ok"]})),
    Endpoint("metrics", "/metrics", "The statistics for Prometheus.", result=None, other="text/plain"),
)
