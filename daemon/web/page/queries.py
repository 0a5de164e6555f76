"""The query strings of the timeline's endpoints, and links with other queries."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

import msgspec

from tooltap.daemon.web.http.query import Filtered
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.timeline import Selection, State

Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
TextKey: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
FILTERS = ("session", "stream", "provider", "agent", "kind", "tool", "state", "text")
MAX_ALSO = 200
MAX_PARTIALS = 16


class SelectionQuery(Filtered, kw_only=True, frozen=True):
    state: tuple[State, ...] = ()
    text: Annotated[str, msgspec.Meta(max_length=1_000)] = ""

    @property
    def selection(self) -> Selection:
        """Return which events are wanted. Raises `WebError`."""
        return Selection(self.filter, self.state, self.text)

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """Return the filters that are set."""
        given = {name: getattr(self, name) or () for name in FILTERS}
        return {name: (value,) if isinstance(value, str) else value for name, value in given.items() if value}

    def url(self, path: str, **more: Any) -> str:
        """Return a URL with the same filters."""
        return _url(path, self.filters | {name: (value,) for name, value in more.items()})

    def timeline(self, **more: str | int) -> str:
        """Return the URL of the timeline with the same filters."""
        return _timeline_url(self.filters, **more)

    def without(self, name: str, value: str) -> str:
        """Return the URL of the timeline without one value of a filter."""
        return _timeline_url(
            {key: tuple(one for one in values if (key, one) != (name, value)) for key, values in self.filters.items()}
        )


class PageQuery(SelectionQuery, kw_only=True, frozen=True):
    before: Seq | None = None
    after: Seq | None = None
    at: Seq | None = None
    """The page around this event."""
    sessions: str | None = None
    """List the sessions after the part with this cursor."""

    def page_url(self) -> str:
        """Return the URL of this page."""
        places = {name: getattr(self, name) for name in ("before", "after", "at", "sessions")}
        return self.timeline(**{name: value for name, value in places.items() if value is not None})


class CardsQuery(SelectionQuery, kw_only=True, frozen=True):
    before: Seq | None = None
    after: Seq | None = None
    at: Seq | None = None
    """The page around this event."""
    first: Seq | None = None
    last: Seq | None = None
    """`first` to `last`: a page that the browser had before."""
    also: Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MAX_ALSO)] = ()
    """Later events that belong into cards of this page."""


class LiveQuery(SelectionQuery, kw_only=True, frozen=True):
    after: str | None = None
    """As in a subscription. Default: `now`."""
    has: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=1_000)], ...], msgspec.Meta(max_length=MAX_PARTIALS)
    ] = ()
    """Keys of the texts of which the reader shows partials."""


class MapQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    session: TextKey


class CardQuery(msgspec.Struct, kw_only=True, frozen=True):
    level: Literal["title", "summary", "full", "expanded", "collapsed"] = "collapsed"
    """`expanded` and `collapsed` stand for the reader's preference."""
    also: Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MAX_ALSO)] = ()
    """Events that belong into the card."""


def _url(path: str, values: dict[str, tuple[Any, ...]]) -> str:
    query = urlencode([(name, one) for name, several in values.items() for one in several])
    return f"{path}?{query}" if query else path


def _timeline_url(filters: dict[str, tuple[str, ...]], **more: str | int) -> str:
    """The timeline of one session is the session's page."""
    sessions = filters.get("session", ())
    if len(sessions) == 1:
        return session_url(sessions[0], **{name: list(filters[name]) for name in filters if name != "session"}, **more)
    return _url("/events", filters | {name: (value,) for name, value in more.items()})
