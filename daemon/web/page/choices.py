"""The filters that pages over all sessions share: agent, project, host and time. They live in the address."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Literal, NamedTuple, Self
from urllib.parse import urlencode

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.listing import ProjectNames
from tooltap.daemon.web.page.home import CHOICES, PERIODS, Words
from tooltap.daemon.web.page.routing import offered_hosts


class Choices(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The query of such a page. Its other fields are texts, empty by default."""

    agent: Words = ()
    """Providers."""
    project: Words = ()
    """Names of the projects' folders."""
    host: Words = ()
    """Names of remotes, or `THIS_MACHINE`."""
    period: Literal["", "day", "week", "month"] = ""

    PATH: ClassVar[str]

    def address(self, **changes: str | tuple[str, ...]) -> str:
        """Return the address of the page with these filters, some of them changed."""
        pairs = []
        for name in self.__struct_fields__:
            value = changes.get(name, getattr(self, name))
            pairs += [(name, one) for one in ((value,) if isinstance(value, str) else value) if one]
        return f"{self.PATH}?{urlencode(pairs)}" if pairs else self.PATH

    @property
    def since(self) -> int | None:
        """Return when the period began, in milliseconds since the epoch."""
        return int(time.time() * 1_000) - PERIODS[self.period] if self.period else None


class Offered(NamedTuple):
    """What there is to choose from."""

    agents: list[str]
    projects: list[str]
    hosts: list[str]
    """None while there is no other than this machine."""
    names: ProjectNames
    folders: tuple[str, ...] | None
    """Folders of the projects that are chosen; None for all."""
    waiting: int
    """Number of sessions that wait for a person."""

    @classmethod
    async def of(cls, journal: Journal, query: Choices) -> Self:
        """Raises `JournalError`."""
        every: dict[str, Any] = await journal.count_sessions()
        names = ProjectNames(every["project"])
        return cls(
            sorted({*every["provider"], *query.agent}),
            sorted({*list(names.of_folder.values())[:CHOICES], *query.project} - {""}),
            await offered_hosts(journal, query.host),
            names,
            names.folders(query.project) if query.project else None,
            every["status"].get("waiting", 0),
        )
