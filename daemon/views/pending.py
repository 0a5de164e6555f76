"""Results whose views are pending: a daemon was to make them, and was killed.

A commit that has such results names them (`StreamInfo.rewriting`), and the commit that has what became of one takes
its name away. So a view is pending exactly while its result is named there, whenever the daemon was killed; what the
command needs is read from the journal again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.views.results import Rewrite, rewrite_of
from tooltap.daemon.views.rules import Rules
from tooltap.daemon.views.text import without_meta
from tooltap.protocol.events import ToolCall, ToolResult, ToolUpdate, decode
from tooltap.protocol.filters import Filter

READ = 500
"""Events read at once."""


class PendingViews(NamedTuple):
    """The results whose views are pending, by what is to be done."""

    rewrites: list[Rewrite]
    without_rule: list[ToolResult]
    """No rule asks for these views any more."""
    gone: set[str]
    """Ids of results that are not stored any more."""
    failed: list[tuple[ToolResult, Exception]]
    """Results for which the command's request cannot be made, and why."""


async def find_pending(journal: Journal, stream: str, ids: Iterable[str], rules: Rules) -> PendingViews:
    """Read what the commands of a stream's results need. `ids`: of the results. Raises `JournalError`."""
    gone = set(ids)
    results: list[ToolResult] = []
    calls: set[str] = set()
    inputs: dict[str, dict[str, Any]] = {}
    wanted = Filter(stream=(stream,), kind=("tool-result", "tool-call", "tool-update"))
    before = journal.latest + 1
    while before > journal.oldest and (gone or calls - inputs.keys()):
        stored, before = await journal.read_back(before, wanted, limit=READ)
        for event in (decode(one.body) for one in stored):
            if isinstance(event, ToolResult) and event.id in gone:
                gone.discard(event.id)
                results.append(event)
                calls.add(event.call_id)
            elif isinstance(event, ToolCall | ToolUpdate) and event.input is not None and event.call_id in calls:
                inputs.setdefault(event.call_id, without_meta(event.input))
    pending = PendingViews([], [], gone, [])
    for result in reversed(results):
        try:
            rule = rules.of(str(result.name))
            if rule is not None and rule.rewrite and not rule.silent:
                pending.rewrites.append(rewrite_of(rule, result, inputs.get(result.call_id, {})))
            else:
                pending.without_rule.append(result)
        except Exception as error:  # the other results are not to wait for this one
            pending.failed.append((result, error))
    return pending
