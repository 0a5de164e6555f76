"""The `opencode-db` dialect: the rows of the table `event` in OpenCode's database, which are durable events of its bus.

Learned from OpenCode 1.18.33. Of what the bus shows, deltas, permissions, questions and the end of a turn are not
stored. A turn ends with the main agent's message that states how it finished, unless that calls tools.
"""

from __future__ import annotations

import re

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.dialects.opencode.bus import OpencodeBus
from tooltap.normalizers.dialects.opencode.parts import outcome_of
from tooltap.normalizers.wire.values import first_string, record, whole

_VERSION = re.compile(r"\.\d{1,9}$")
_CONTINUES = ("tool-calls", "unknown")
"""Finish reasons of messages that do not end the turn."""


class OpencodeDb(OpencodeBus):
    dialect = "opencode-db"
    line = OpencodeBus.line.copy()

    def read(self, value: Line) -> Skip:
        kind, data = value.get("type"), value.get("data")
        if type(kind) is not str or type(data) is not dict:
            return self.unparsed("unknown-type", value)
        return super().read({"type": _VERSION.sub("", kind), "properties": data})

    @line("message.updated")
    def _message(self, properties: Line) -> Skip:
        skip = super()._message(properties)
        message = record(properties.get("info"))
        finish = first_string(message, "finish")
        is_complete = whole(record(message.get("time")).get("completed")) is not None
        is_last = finish not in _CONTINUES and (finish is not None or "error" in message)
        if self.agent is not None or self.turn is None or message.get("role") != "assistant":
            return skip
        if not is_complete or not is_last:
            return skip
        info = self.sessions.info
        outcome, reason = info.outcome or (outcome_of(finish), finish)
        self.end_turn(outcome, reason=reason, ended_by="answer")
        info.outcome, info.step_reason, info.retry = [], None, 0
        return None
