"""The address of a page of the timeline: what its query asks for, and the links to its other states."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

import msgspec

from tooltap.daemon.web.http.query import Filtered
from tooltap.daemon.web.page.timeline import Asked, State

__all__ = ["CardQuery", "CardsQuery", "LiveQuery", "PageQuery", "Seq"]

Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FILTERS = ("session", "stream", "provider", "agent", "kind", "tool", "state", "text")
MAX_ALSO = 200


class AskedQuery(Filtered, kw_only=True, frozen=True):
    state: tuple[State, ...] = ()
    text: Annotated[str, msgspec.Meta(max_length=1_000)] = ""

    @property
    def asked(self) -> Asked:
        """Raises `WebError`."""
        return Asked(self.filter, self.state, self.text)

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """Those that are set."""
        given = {name: getattr(self, name) or () for name in FILTERS}
        return {name: (value,) if isinstance(value, str) else value for name, value in given.items() if value}

    def url(self, path: str, **more: Any) -> str:
        """With the same filters."""
        return _url(path, self.filters | {name: (value,) for name, value in more.items()})

    def without(self, name: str, value: str) -> str:
        """The timeline with one value less of a filter."""
        left = {
            key: tuple(one for one in values if (key, one) != (name, value)) for key, values in self.filters.items()
        }
        return _url("/", left)


class PageQuery(AskedQuery, kw_only=True, frozen=True):
    before: Seq | None = None
    after: Seq | None = None
    at: Seq | None = None
    """The page around an event."""
    sessions: Seq | None = None
    """Sessions whose last event is before this one."""


class CardsQuery(AskedQuery, kw_only=True, frozen=True):
    before: Seq | None = None
    after: Seq | None = None
    first: Seq | None = None
    last: Seq | None = None
    """From `first` to `last`: what was a page before."""
    also: Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MAX_ALSO)] = ()
    """Events that came later and belong into cards of this page."""


class LiveQuery(AskedQuery, kw_only=True, frozen=True):
    after: str | None = None
    """As in a subscription. Default: `now`."""


class CardQuery(msgspec.Struct, kw_only=True, frozen=True):
    level: Literal["title", "summary", "full", "expanded", "collapsed"] = "collapsed"
    """`expanded`, `collapsed`: as the reader prefers it."""
    also: Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MAX_ALSO)] = ()
    """Events that belong into the card."""


def _url(path: str, values: dict[str, tuple[Any, ...]]) -> str:
    query = urlencode([(name, one) for name, several in values.items() for one in several])
    return f"{path}?{query}" if query else path
