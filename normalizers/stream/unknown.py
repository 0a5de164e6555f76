"""The dialect of streams that no dialect recognises: every line is `unparsed`, with its text."""

from __future__ import annotations

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser

__all__ = ["Unknown"]


class Unknown(Parser):
    dialect = "unknown"
    protocol = "unknown"
    default_provider = "unknown"
    ARRAYS = False

    def read(self, value: Line) -> Skip:
        return self.unparsed("unknown-dialect", value)
