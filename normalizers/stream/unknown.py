"""The dialect of streams nobody recognises: every line is `unparsed`, with its text."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import Parser
from tooltap.protocol.tapped import Direction

__all__ = ["Unknown"]


class Unknown(Parser):
    dialect = "unknown"
    protocol = "unknown"
    default_provider = "unknown"
    SKIPS = frozenset({"blank", "lost"})
    ARRAYS = False

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        return self.unparsed("unknown-dialect", value)
