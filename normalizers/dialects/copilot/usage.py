"""Tokens of Copilot CLI: of one request, and of a process.

A printed stream states each request (`assistant.usage`), a saved session only since 1.0.102 (`session.usage_record`).
Older versions state the output of each message, and when the process ends, what each model used
(`session.shutdown`). That total began at 0 with the process up to some version, and goes on after a resume since then;
which of the two it is follows from the figures. So does whether it includes the requests of compactions, which state
their tokens themselves: that of 1.0.102 does not.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import put
from tooltap.normalizers.wire.values import first_string, record, string, token_counts, whole
from tooltap.protocol.events import ModelUsage, Usage

MANY_MODELS = 64
MANY_AGENTS = 1_024
_COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_COUNTS_OF_2025 = {"inputTokens": "input", "outputTokens": "output", "cacheReadTokens": "cachedInput"}
"""Key of a compaction's tokens -> its name in versions of 2025."""
_REQUESTS, _OUTPUT = 0, 2
"""Indexes in the counts of a model."""

Counts = dict[str, list[int]]
"""Model -> number of requests, followed by its tokens in the order of `_COUNTS`."""


class Counted(msgspec.Struct, omit_defaults=True):
    """The latest request of an agent whose tokens were emitted."""

    event: str
    """Id of its usage event."""
    request: str | None = None
    output: int | None = None
    partly: bool = False
    """Only its output is known."""
    provider: str | None = None
    """Its id at the provider."""


class CopilotUsageState(msgspec.Struct, omit_defaults=True):
    latest: dict[str, Counted] = {}
    """Agent -> its latest request; the main agent's name is empty."""
    ended: Counts = {}
    """What processes used whose totals no longer go on."""
    before: Counts = {}
    """The last total, and what was used after it by a process that ended without one."""
    own: Counts = {}
    """What the process has stated of single requests since its last total."""
    compacted: Counts = {}
    """What compactions used since the last total."""


class CopilotUsage:
    def __init__(self, parser: Parser, state: CopilotUsageState) -> None:
        self._parser = parser
        self._state = state

    def request(self, used: Line) -> bool:
        """Emit the tokens of one request. Returns False if the line states none: Copilot knows them only for models
        that it serves itself."""
        if whole(used.get("inputTokens")) is None and whole(used.get("outputTokens")) is None:
            return False
        request, output = string(used.get("apiCallId")), whole(used.get("outputTokens"))
        earlier = self._latest(request, output)
        replaced = earlier.event if earlier is not None and earlier.partly else None
        model = string(used.get("model"))
        tokens = token_counts(*(used.get(key) for key in _COUNTS))
        event = self._parser.emit(Usage, scope="step", **tokens, model=model, request=request, replaces=replaced)
        if replaced is None:
            self._add(model, used)
        self._note(Counted(event.id, request, output, provider=string(used.get("providerCallId"))))
        return True

    def compaction(self, data: Line) -> None:
        """Emit what a compaction used, unless its request has stated it already."""
        stated, request = record(data.get("compactionTokensUsed")), string(data.get("requestId"))
        latest = self._state.latest.get(self._parser.agent or "")
        if request is not None and latest is not None and latest.provider == request:
            return
        used = {key: stated.get(key, stated.get(_COUNTS_OF_2025.get(key, key))) for key in _COUNTS}
        tokens = token_counts(*used.values())
        if not any(tokens.values()):
            return
        model = first_string(stated, "model") or string(data.get("model"))
        name = request or string(data.get("compactionAttemptId"))
        self._parser.emit(Usage, scope="step", **tokens, model=model, request=name)
        state = self._state
        state.compacted = _sum(state.compacted, self._counts(model, used, whole(stated.get("requestCount")) or 1))

    def message(self, data: Line) -> None:
        """Emit the output tokens of a message, unless its request has stated all its tokens already."""
        request, output = (
            string(data.get("apiCallId")) or string(data.get("messageId")),
            whole(data.get("outputTokens")),
        )
        earlier = self._latest(string(data.get("apiCallId")), output)
        if earlier is not None and not earlier.partly:
            earlier.output = None  # another message with as many tokens is another request
            return
        model = string(data.get("model"))
        self._add(model, {"outputTokens": output})
        if output is None:
            return
        event = self._parser.emit(Usage, scope="step", output_tokens=output, model=model, request=request)
        self._note(Counted(event.id, string(data.get("apiCallId")), output, partly=True))

    def resume(self) -> None:
        """Another process continues the session. The one before may have ended without a total."""
        state = self._state
        state.before, state.own = _sum(state.before, state.own), {}

    def total(self, stated: Line) -> None:
        """Emit what the session has used so far, at the end of a process that states what each model used."""
        metrics = record(stated.get("modelMetrics")) or record(
            record(stated.get("accountingSnapshot")).get("modelMetrics")
        )
        total: Counts = {}
        for model, one in list(metrics.items())[:MANY_MODELS]:
            used = record(record(one).get("usage"))
            requests = whole(record(record(one).get("requests")).get("count"))
            total[model] = [requests or 0, *(whole(used.get(key)) or 0 for key in _COUNTS)]
        if not any(any(counts) for counts in total.values()):
            return
        state = self._state
        if not _continues(total, state.before, state.own):
            state.ended, state.before = _sum(state.ended, state.before), {}
        if not _covers(total, state.before, state.own, state.compacted):
            state.ended = _sum(state.ended, state.compacted)
        state.before, state.own, state.compacted = total, {}, {}
        whole_session = _sum(state.ended, total)
        models = [ModelUsage(model=model, **_tokens(counts)) for model, counts in whole_session.items() if model]
        sums = [sum(column) for column in zip(*whole_session.values(), strict=True)]
        self._parser.emit(Usage, scope="session", **_tokens(sums), models=models, counter="session")

    def _latest(self, request: str | None, output: int | None) -> Counted | None:
        """Return the agent's latest request if it is this one: by its id, or where one of the two has none, by its
        output."""
        latest = self._state.latest.get(self._parser.agent or "")
        if latest is None:
            return None
        if request is not None and latest.request is not None:
            return latest if request == latest.request else None
        return latest if output is not None and output == latest.output else None

    def _note(self, counted: Counted) -> None:
        latest, agent = self._state.latest, self._parser.agent or ""
        latest.pop(agent, None)
        put(latest, agent, counted, MANY_AGENTS)

    def _add(self, model: str | None, used: Line) -> None:
        self._state.own = _sum(self._state.own, self._counts(model, used))

    def _counts(self, model: str | None, used: Line, requests: int = 1) -> Counts:
        counts = [requests, *(whole(used.get(key)) or 0 for key in _COUNTS)]
        return {model or self._parser.state.model or "": counts}


def _continues(total: Counts, before: Counts, own: Counts) -> bool:
    """Return whether a total includes what was used before its process: then it exceeds that by what the process has
    stated of its own requests."""
    if any(
        now < then for model, counts in before.items() for now, then in zip(total.get(model, ()), counts, strict=False)
    ):
        return False
    if before.keys() - {""} - total.keys():
        return False
    return _covers(total, before, own)


def _covers(total: Counts, before: Counts, own: Counts, compacted: Counts | None = None) -> bool:
    """Return whether a total exceeds an earlier one by these requests at least. They are compared by their output, or
    where messages do not state it, by their number."""
    known = own or compacted or {}
    column = _OUTPUT if any(counts[_OUTPUT] for counts in known.values()) else _REQUESTS
    grown = sum(counts[column] for counts in total.values()) - sum(counts[column] for counts in before.values())
    return grown >= sum(counts[column] for counts in (*own.values(), *(compacted or {}).values()))


def _sum(one: Counts, other: Counts) -> Counts:
    found = {model: list(counts) for model, counts in one.items()}
    for model, counts in other.items():
        if model in found:
            found[model] = [a + b for a, b in zip(found[model], counts, strict=True)]
        elif len(found) < MANY_MODELS:
            found[model] = list(counts)
    return found


def _tokens(counts: list[int]) -> dict[str, Any]:
    return token_counts(*counts[1:])
