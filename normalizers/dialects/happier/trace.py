"""Tool traces of Happier (`v` 1, written from January 2026 on): what its CLI sent and got, one record a line.

    {"v", "ts", "direction", "sessionId", "protocol", "provider"?, "kind", "payload", "localId"?}

One file holds the sessions of several agents, over three protocols: `acp`, `codex` and `claude`.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.dialects.happier.payloads import PAYLOAD_SKIPS, HappierParser
from tooltap.protocol.tapped import Direction

__all__ = ["HappierTrace"]


class HappierTrace(HappierParser):
    dialect = "happier-trace"
    protocol = "happier"
    default_provider = "happier"
    SKIPS = PAYLOAD_SKIPS

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        payload, protocol, kind = value.get("payload"), value.get("protocol"), value.get("kind")
        reader = self.payload_readers.get(kind) if isinstance(kind, str) else None
        if value.get("v") != 1 or reader is None or not isinstance(payload, dict) or not isinstance(protocol, str):
            return self.unparsed("unknown-type", value)
        self._set_scope(value, protocol)
        return reader(payload)

    def _set_scope(self, record: dict[str, Any], protocol: str) -> None:
        provider = record.get("provider")
        self.origin = protocol, self.context.provider or (provider if isinstance(provider, str) else protocol)
        if isinstance(record.get("ts"), int):
            self.ts = record["ts"]
        session = record.get("sessionId")
        if isinstance(session, str) and session:
            if self.state.session is None:
                self.set_session(session)
            self.session = session
