"""The cache of fragments: rendered once per level, bounded in bytes."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from tests.daemon.events import call, commit, event, message, result
from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.show.blocks import Level, RenderContext
from tooltap.daemon.show.shown import Fragment, fragment_of
from tooltap.daemon.show.skins import html as skin
from tooltap.daemon.web.page import fragments as module
from tooltap.daemon.web.page.fragments import Cache, Fragments
from tooltap.protocol.events import Event, ToolUpdate

pytestmark = pytest.mark.anyio


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    yield journal
    await journal.close()


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, RenderContext]]:
    """Records what is rendered, and checks that it is never in the daemon's own thread."""
    seen: list[tuple[int | None, RenderContext]] = []

    def watched(event: Event, context: RenderContext) -> Fragment | None:
        assert threading.current_thread() is not threading.main_thread()
        seen.append((event.seq, context))
        return fragment_of(event, context)

    monkeypatch.setattr(skin, "fragment_of", watched)
    return seen


async def everything(journal: Journal) -> list[StoredEvent]:
    return (await journal.read(0))[0]


def full(_: object) -> Level:
    return "full"


def title(_: object) -> Level:
    return "title"


async def test_event_is_rendered_once_per_level(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]]
) -> None:
    await journal.commit(commit(message("a"), message("b")))
    fragments, events = Fragments(journal, 1_000_000, str), await everything(journal)

    for level in (full, title, full, title):
        assert [one.seq for one in await fragments.of(events, level)] == [1, 2]

    assert [(seq, context.level) for seq, context in rendered] == [(1, "full"), (2, "full"), (1, "title"), (2, "title")]


async def test_one_of_many_live_readers_renders(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]]
) -> None:
    await journal.commit(commit(message("a"), message("b", replay=True), message("c")))
    fragments, events = Fragments(journal, 1_000_000, str), await everything(journal)
    shown: list[list[Fragment]] = []

    async def read() -> None:
        shown.append(await fragments.of_live(events, full))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(read)

    assert [[one.seq for one in found] for found in shown] == 5 * [[1, 3]]
    assert [seq for seq, _ in rendered] == [1, 2, 3]
    assert await fragments.of_live([], full) == []


async def test_card_alone_is_rendered_once(journal: Journal) -> None:
    await journal.commit(commit(message("a")))
    fragments = Fragments(journal, 1_000_000, str)
    [fragment] = await fragments.of(await everything(journal), full)

    assert fragments.card_of(fragment) is fragments.card_of(fragment)


async def test_invisible_events_are_cached_too(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]]
) -> None:
    await journal.commit(commit(message("a", replay=True)))
    fragments, events = Fragments(journal, 1_000_000, str), await everything(journal)

    assert [await fragments.of(events, full) for _ in range(2)] == [[], []]
    assert len(rendered) == 1


async def test_evicted_fragments_are_rendered_again(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]]
) -> None:
    await journal.commit(commit(*(message("x" * 1_000) for _ in range(20))))
    fragments, events = Fragments(journal, 30_000, str), await everything(journal)

    await fragments.of(events, full)
    await fragments.of(events[-2:], full)
    await fragments.of(events[:1], full)

    assert [seq for seq, _ in rendered] == [*range(1, 21), 1]


def test_cache_evicts_least_recently_used() -> None:
    kept: Cache[str, int] = Cache(10)

    for key in "abc":
        kept.put(key, 1, 3)
    assert kept.get("a") == (1,)
    kept.put("d", 1, 3)
    kept.put("d", 2, 4)

    assert [kept.get(key) for key in "abcd"] == [(1,), None, (1,), (2,)]
    assert (len(kept), kept.bytes) == (3, 10)

    kept.put("large", 1, 11)
    assert (len(kept), kept.bytes) == (0, 0)


async def test_result_gets_latest_input_of_its_call(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]]
) -> None:
    late = event(ToolUpdate, call_id="1", name="Bash", input={"command": "ls"}, preview="ls")
    await journal.commit(commit(call("1"), late, *(message("x") for _ in range(50)), result("1")))
    events = await everything(journal)

    for known in (events, events[-1:]):  # on the same page, and on a later one
        rendered.clear()
        await Fragments(journal, 1_000_000, str).of(known, full)
        found = rendered[-1][1].call
        assert found is not None
        assert (found.name, found.input["command"], found.preview) == ("Bash", "ls", "ls")


async def test_search_for_call_is_bounded(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_BACK", 5)
    await journal.commit(commit(call("far"), *(call(str(n)) for n in range(5)), result("far"), result("3")))
    events = await everything(journal)

    await Fragments(journal, 1_000_000, str).of(events[-2:], full)

    assert [context.call is not None for _, context in rendered] == [False, True]


async def test_result_finds_call_with_cached_card(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]]
) -> None:
    others = [call(f"other-{n}", input={"command": "x" * 200}) for n in range(20)]
    await journal.commit(commit(call("1"), *others, result("1")))
    events, fragments = await everything(journal), Fragments(journal, 60_000, str)
    await fragments.of(events[:1], full)
    await fragments.of(events[1:-1], title)  # they take the place of the call, not of its card

    rendered.clear()
    await fragments.of([events[0], events[-1]], full)

    assert [(seq, context.call is not None) for seq, context in rendered] == [(events[-1].seq, True)]


async def test_call_of_other_stream_does_not_match(
    journal: Journal, rendered: list[tuple[int | None, RenderContext]]
) -> None:
    await journal.commit(commit(call("1", "other"), stream="other"))
    await journal.commit(commit(result("1")))

    await Fragments(journal, 1_000_000, str).of(await everything(journal), full)

    assert rendered[-1][1].call is None


async def test_failing_renderer_becomes_a_notice(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(event: Event, context: RenderContext) -> Fragment | None:
        if getattr(event, "text", "") == "bad":
            raise KeyError("oh")
        return fragment_of(event, context)

    monkeypatch.setattr(skin, "fragment_of", failing)
    await journal.commit(commit(message("good"), message("bad"), message("good")))

    found = await Fragments(journal, 1_000_000, str).of(await everything(journal), full)

    assert [(one.seq, one.title) for one in found] == [(1, "Assistant"), (2, "not shown"), (3, "Assistant")]


async def test_result_says_what_it_replaces(journal: Journal) -> None:
    guessed, stated = result("1", synthetic=True), result("2", line=2)
    await journal.commit(
        commit(
            *(call("1"), guessed, call("2"), stated, message("x")),
            result("1", line=3, replaces=guessed.id),
            result("2", line=4, replaces=stated.id),
            result("3", line=5, replaces="s:0:0"),
        )
    )
    events = await everything(journal)

    found = await Fragments(journal, 1_000_000, str).of(events[-3:], full)

    assert [tuple(fact.text for fact in one.facts) for one in found] == [
        *(("replaces the inferred one",), ("corrects the one before",), ("replaces an earlier one",))
    ]
