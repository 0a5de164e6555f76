"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.claude import claude_transcript
from tests.normalizers.endless.text import TEXT


def happier_trace() -> Iterator[Any]:
    for n in itertools.count():
        common = {"v": 1, "ts": 10**12 + n, "direction": "outbound", "sessionId": f"s{n // 50}", "protocol": "acp"}
        common["provider"] = "gemini"
        call = {"type": "tool-call", "callId": f"c{n}", "name": "execute", "input": {"command": TEXT * 10}}
        yield {**common, "kind": "tool-call", "payload": call}
        asked = {"type": "permission-request", "permissionId": f"p{n}", "toolName": "edit"}
        hint = {"toolCall": {"toolCallId": f"p{n}", "rawInput": {"x": TEXT * 10}}}
        yield {**common, "kind": "permission-request", "payload": {**asked, "options": hint}}
        answer = {"type": "tool-result", "callId": f"r{n}", "output": TEXT}
        yield {**common, "kind": "tool-result", "payload": answer}


def legacy() -> Iterator[Any]:
    transcript = claude_transcript()
    for n in itertools.count():
        call = {"type": "tool-call", "callId": f"c{n}", "name": "execute", "input": {"command": TEXT * 10}}
        yield {"role": "agent", "content": {"type": "acp", "provider": f"p{n}", "data": call}}
        piece = {"type": "terminal-output", "callId": f"t{n}", "data": TEXT}
        yield {"role": "agent", "content": {"type": "acp", "provider": "gemini", "data": piece}}
        asked = {"type": "permission-request", "permissionId": f"p{n}", "toolName": "edit"}
        yield {"role": "agent", "content": {"type": "acp", "provider": "gemini", "data": asked}}
        yield {"role": "agent", "content": {"type": "output", "data": next(transcript)}}
        if n % 50 == 0:
            yield {"role": "agent", "content": {"type": "acp", "data": {"type": "task_started"}}}
