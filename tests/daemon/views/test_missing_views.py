"""Which pending views are taken for those of deleted results, and which results are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest

from tests.daemon.events import commit, info, result
from tests.daemon.journal.conftest import clock as clock
from tests.daemon.journal.conftest import journal as journal
from tests.daemon.journal.conftest import place as place
from tests.daemon.journal.on_nats import opened
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.views.rewriter import Rewriter, find_pending
from tooltap.daemon.views.rules import Rewriting, Rules, ToolRule
from tooltap.normalizers.core.items import Limits

pytestmark = pytest.mark.anyio
RULES = Rules({"Bash": ToolRule(rewrite=("echo", "shown"))})


async def test_view_of_a_result_that_is_being_committed_stays_pending(journal: Journal) -> None:
    """The publisher's next result is marked before its commit is durable, and not found until then."""
    settled: dict[str, Any] = {}

    async def settle(stream: str, outcomes: Mapping[str, Sequence[Any]]) -> None:
        settled.update(outcomes)

    async with anyio.create_task_group() as tasks:
        rewriter = Rewriter(journal, Rewriting(), Limits(), tasks, settle)
        resumed = info(rewriting={"s:1:0": "killed", "s:2:0": journal.daemon})
        await rewriter.make_missing(RULES, [resumed])

    assert settled == {"s:1:0": ()}


async def test_result_that_another_daemon_has_just_committed_is_found(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as mine, opened(nats_place) as other:
        await other.commit(commit(result("c")))
        found = await find_pending(mine, "s", {"s:1:0"}, RULES)

    assert [one.result.id for one in found.rewrites] == ["s:1:0"]
    assert not found.gone


async def test_stream_of_another_daemon_is_read_to_its_end_once_it_is_loaded(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as mine, opened(nats_place) as other:
        await other.commit(commit(result("c")))
        await mine.load_stream("s")
        events, _ = await mine.read(0)

    assert len(events) == 1
