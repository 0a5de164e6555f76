"""The next commit of a stream, as the rules of sessions see and change it before it is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.normalizers.core.items import Produced


class NextCommit(Protocol):
    """Implemented by the live stream (`daemon/ingest`)."""

    info: StreamInfo
    sessions: set[str]
    """Sessions that began or got a prompt since the last commit: another stream may report the same."""

    @property
    def pending(self) -> list[Produced]:
        """The events that will be stored."""

    @property
    def is_shared(self) -> bool:
        """Whether another stream may have reported some of them."""

    def exchange(self, event: Produced, changed: Produced) -> None:
        """Replace an event."""

    def hold(self) -> None:
        """Hold all events back, in `info.pending_displays`."""

    def withhold(self, is_elsewhere: Callable[[Produced], bool]) -> None:
        """Leave out the events that another stream has reported."""
