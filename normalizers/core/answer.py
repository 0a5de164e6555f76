"""Result of a call, as a dialect reads it from the wire."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from tooltap.protocol.events import Attachment, Display, OutputRef


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One result. `Calls.answer` makes the canonical output of it."""

    value: Any = None
    """The tool's output in a form its tool family reads; None where the wire states nothing but an error."""
    status: str = "completed"
    """The end of the call as the provider states it: completed, failed, denied, cancelled or interrupted. A denied
    permission or a stated exit code may correct it."""
    error: str | None = None
    """The provider's words about what failed."""
    duration_ms: int | None = None
    display: Display | None = None
    """Shown to the user in place of the output."""
    model: Any = msgspec.UNSET
    """Sent to the model, as the wire has it: a text, or a list of content blocks whose data `take_bodies` has stored.
    UNSET: the wire does not say."""
    attachments: list[Attachment] | None = None
    outputs: dict[str, OutputRef] | None = None
    """JSON pointer -> the output body that holds the whole of a truncated string."""
    is_async: bool = False
    """The call runs on in the background; its final result is still to come."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)
