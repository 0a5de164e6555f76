"""Filters of subscriptions. They match metadata kept beside an event, so that the event need not be decoded again."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol, TypeAlias, get_args

import msgspec

from tooltap.protocol.events import AnyEvent, Event

__all__ = ["ALL_EVENTS", "EventMeta", "Filter", "Values", "meta_of"]

MAX_VALUES = 256

Values: TypeAlias = Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=MAX_VALUES)]


class EventMeta(NamedTuple):
    """The metadata of an event by which filters select."""

    kind: str
    stream: str
    session: str
    provider: str
    agent: str | None
    tool: str | None
    """The canonical tool, for the kinds that name one."""
    raw_tool: str | None


class Matched(Protocol):
    """The interface that filters match: an `EventMeta`, or anything else with these attributes."""

    @property
    def kind(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def agent(self) -> str | None: ...
    @property
    def tool(self) -> str | None: ...
    @property
    def raw_tool(self) -> str | None: ...


def meta_of(event: Event) -> EventMeta:
    """Return the metadata of an event by which filters select."""
    kind, has_name, payload_field = _SHAPES[type(event)]
    payload = getattr(event, payload_field) if payload_field else None
    happy = payload.get("_happy") if payload else None
    return EventMeta(
        kind,
        event.stream,
        event.session,
        event.provider,
        event.agent,
        event.name if has_name else None,  # type: ignore[attr-defined]
        happy.get("rawToolName") if isinstance(happy, dict) else None,
    )


def _shape(kind: type[Event]) -> tuple[str, bool, str | None]:
    """Return (`kind` on the wire, whether it names a tool, the field that has `_happy`)."""
    fields = kind.__struct_fields__
    payload = next((name for name in ("input", "output") if name in fields), None)
    return str(kind.__struct_config__.tag), "name" in fields, payload


_SHAPES = {kind: _shape(kind) for kind in get_args(AnyEvent)}


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The filter of a subscription. An event must match every key, and matches a key with any of its values; an absent
    key matches everything."""

    session: Values | None = None
    """Ids of sessions, present or earlier: an event of one of them matches under whichever id it is stored."""
    stream: Values | None = None
    provider: Values | None = None
    agent: Values | None = None
    kind: Values | None = None
    tool: Values | None = None
    """The canonical or the raw name of the tool."""

    @property
    def matches_all(self) -> bool:
        """Whether every event matches, because no key is given."""
        return self == ALL_EVENTS

    def matches(self, meta: Matched) -> bool:
        """Whether an event with this metadata matches."""
        return (
            (self.kind is None or meta.kind in self.kind)
            and (self.session is None or meta.session in self.session)
            and (self.stream is None or meta.stream in self.stream)
            and (self.provider is None or meta.provider in self.provider)
            and (self.agent is None or meta.agent in self.agent)
            and (self.tool is None or meta.tool in self.tool or meta.raw_tool in self.tool)
        )


ALL_EVENTS = Filter()
"""The filter that every event matches. Used in place of None, which is not accepted as a filter."""
