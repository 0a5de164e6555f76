"""A store that is wiped, truncated, restored or purged: the journal gets a new id, and clients continue with it."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.events import commit, message
from tests.daemon.journal.on_nats import Published, everything, opened, position, texts, until
from tests.daemon.nats_server import NatsServer
from tests.daemon.running import Wire, running
from tooltap.daemon.hub import Hub
from tooltap.daemon.journal.interface import JournalError, StreamConflictError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url

pytestmark = pytest.mark.anyio


def store(server: NatsServer) -> Path:
    return server.directory / "js"


def wipe(server: NatsServer) -> None:
    server.kill()
    shutil.rmtree(store(server))
    server.start()


def back_up(server: NatsServer, place: Path) -> None:
    server.kill()
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(store(server), place)
    server.start()


def restore(server: NatsServer, place: Path) -> None:
    server.kill()
    shutil.rmtree(store(server))
    shutil.copytree(place, store(server))
    server.start()


def truncate(server: NatsServer) -> None:
    """Cut the newest block off in its middle, as a disk that lost what was written last."""
    server.kill()
    (folder,) = store(server).glob("jetstream/*/streams/tooltap/msgs")
    for index in folder.glob("index.db"):
        index.unlink()
    block = max(folder.glob("*.blk"), key=lambda file: int(file.stem))
    with block.open("r+b") as file:
        file.truncate(block.stat().st_size // 2)
    server.start()


async def delete(journal: NatsJournal) -> None:
    await journal._connection.api(f"STREAM.DELETE.{journal._messages.stream}")


class Resets:
    """How often `on_reset` was called."""

    def __init__(self, journal: NatsJournal) -> None:
        self.count = 0
        journal.on_reset = self._add

    def _add(self) -> None:
        self.count += 1


@pytest.mark.parametrize("listens", [True, False])
async def test_wiped_under_a_live_daemon(tmp_path: Path, listens: bool) -> None:
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as one, opened(parse_nats_url(server.url)) as other:
            published, resets = Published(other), Resets(one)
            if listens:
                await other.listen()
            for line in range(5):
                await one.commit(commit(message(str(line)), base=line))
            was = one.id
            wipe(server)

            await until(lambda: one.id == other.id != was)
            assert resets.count == 1
            with pytest.raises(JournalError, match="was replaced: it has 0 lines of stream s; resume there"):
                await one.commit(commit(message("on top of nothing"), base=5))
            assert await one.load_stream("s") is None
            await one.commit(commit(message("anew")))
            assert texts(await everything(one)) == texts(await everything(other)) == ["anew"]
            assert one.last_expired == 0
            if listens:
                await until(lambda: texts(published.events)[-1:] == ["anew"])


async def test_deleted_under_a_live_daemon_is_noticed_by_the_next_commit(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.journal.CHECK_PERIOD", 3_600)
    async with opened(nats_place) as journal:
        await journal.commit(commit(message("a")))
        was = journal.id
        await delete(journal)

        with anyio.fail_after(20), pytest.raises(JournalError, match="it has 0 lines of stream s"):
            await journal.commit(commit(message("b"), base=1))
        assert journal.id != was
        assert journal.statistics()["resets"] == 1
        assert [info.stream for info in await journal.streams()] == []


async def test_deleted_under_a_daemon_that_listens_is_noticed_without_a_commit(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.events.SILENCE", 0.5)
    async with opened(nats_place) as journal:
        await journal.listen()
        await journal.commit(commit(message("a")))
        was = journal.id
        await delete(journal)
        await until(lambda: journal.id != was)


async def test_subscription_that_notices_it_ends_where_the_new_journal_does(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where the old one did: it would wait for events that nobody has."""
    monkeypatch.setattr("tooltap.daemon.journal.nats.journal.CHECK_PERIOD", 3_600)
    async with opened(nats_place) as journal, anyio.create_task_group() as tasks:
        await journal.commit(commit(message("a")))
        hub = Hub(journal, tasks)
        journal.on_reset = hub.restart
        assert hub.latest == journal.latest > 0
        await delete(journal)

        await hub.listen()
        assert hub.latest == journal.latest == 0


async def test_range_of_a_journal_that_is_replaced_while_it_is_asked_for_is_not_the_new_one_s(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.journal.CHECK_PERIOD", 3_600)
    async with opened(nats_place) as journal:
        await journal.commit(commit(message("a")))
        expired = journal._state.expired

        async def replaced() -> int:
            monkeypatch.undo()
            await delete(journal)
            await journal._check()
            return await expired()

        monkeypatch.setattr(journal._state, "expired", replaced)
        await journal.read_back(journal.latest + 1, limit=10)
        assert journal.statistics()["resets"] == 1
        assert journal.latest == 0


async def test_idle_daemon_notices_within_seconds(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.journal.CHECK_PERIOD", 0.1)
    async with opened(nats_place) as journal:
        await journal.commit(commit(message("a")))
        was = journal.id
        await delete(journal)
        await until(lambda: journal.id != was)


@pytest.mark.parametrize("regrown", [0, 3, 9])
async def test_restored_from_an_older_backup(tmp_path: Path, regrown: int) -> None:
    """Also if another daemon has stored as much as was lost before this one looks."""
    (tmp_path / "nats").mkdir()
    with NatsServer(tmp_path / "nats") as server:
        place = parse_nats_url(server.url)
        async with opened(place) as journal:
            for line in range(3):
                await journal.commit(commit(message(str(line)), base=line))
            back_up(server, tmp_path / "backup")
            for line in range(3, 8):
                await journal.commit(commit(message(str(line)), base=line))
            was = journal.id
            connection, kept = journal._connection, journal._connection.verify_journal
            connection.verify_journal = None  # it is not as fast as the other one
            restore(server, tmp_path / "backup")
            async with opened(place) as other:
                assert other.id == was
                for line in range(regrown):
                    await other.commit(commit(message(f"other {line}", "t"), stream="t", base=line))
                connection.verify_journal = kept
                connection.require_verification()
                with pytest.raises(JournalError, match="it has 3 lines of stream s"):
                    await journal.commit(commit(message("8"), base=8))
                await other._check()

                assert other.id == journal.id != was
                info = await position(journal)
                await journal.commit(commit(message("3 again"), base=info.lines, position=info.position))
                expected = ["0", "1", "2", *(f"other {line}" for line in range(regrown)), "3 again"]
                assert texts(await everything(journal)) == texts(await everything(other)) == expected
                await until(lambda: _are(journal, {"s", "t"} if regrown else {"s"}))


async def _are(journal: NatsJournal, streams: set[str]) -> bool:
    return {info.stream for info in await journal.streams()} == streams


async def test_restored_between_two_lives(tmp_path: Path) -> None:
    """Only this host remembers that there was more."""
    (tmp_path / "nats").mkdir()
    memory = tmp_path / "memory"
    with NatsServer(tmp_path / "nats") as server:
        place = parse_nats_url(server.url)
        journal = await NatsJournal.open(place, memory=memory)
        await journal.commit(commit(message("a")))
        back_up(server, tmp_path / "backup")
        await journal.commit(commit(message("b"), base=1))
        was = journal.id
        await journal.close()
        restore(server, tmp_path / "backup")

        journal = await NatsJournal.open(place, memory=memory)
        assert journal.id != was
        assert texts(await everything(journal)) == ["a"]
        await journal.close()
        again = await NatsJournal.open(place, memory=memory)
        assert again.id == journal.id
        await again.close()


async def test_truncated(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            published = Published(journal)
            await journal.listen()
            for line in range(50):
                await journal.commit(commit(message(f"{line} {'x' * 500}"), base=line))
            was = journal.id
            truncate(server)
            await until(lambda: journal.id != was)

            info = await position(journal)
            assert 0 < info.lines < 50
            assert len(await everything(journal)) == info.lines
            published.events.clear()
            await journal.commit(commit(message("on"), base=info.lines, position=info.position))
            await until(lambda: texts(published.events) == ["on"])
            assert len(await everything(journal)) == info.lines + 1


@pytest.mark.parametrize("keep", [0, 2])
async def test_purged_by_somebody_else(nats_place: NatsPlace, keep: int) -> None:
    """The lines were acknowledged, and nobody has them any more: positions stay."""
    async with opened(nats_place) as journal:
        for line in range(5):
            await journal.commit(commit(message(str(line)), base=line))
        await journal._state.write()
        was = journal.id
        await journal._connection.api(f"STREAM.PURGE.{nats_place.name}", keep=keep)
        await journal._check()

        assert journal.id != was
        assert texts(await everything(journal)) == ["0", "1", "2", "3", "4"][5 - keep :]
        info = await position(journal)
        assert info.lines == 5
        await journal.commit(commit(message("5"), base=5, position=info.position))
        was = journal.id
        await journal._check()
        assert journal.id == was
        async with opened(nats_place) as other:
            assert other.id == was


async def test_retention_and_limits_are_no_reset(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        was = journal.id
        await journal.commit(commit(message("a", session="gone"), state="ended", updated=1))
        await journal.commit(commit(message("b", "t"), stream="t"))
        await journal._state.write()
        assert await journal.expire(10) == 1
        await journal._check()
        config = (await journal._connection.api(f"STREAM.INFO.{nats_place.name}"))["config"]
        await journal._connection.api(f"STREAM.UPDATE.{nats_place.name}", **{**config, "max_msgs": 2})
        for line in range(4):
            await journal.commit(commit(message(str(line), "u"), stream="u", base=line))
        await journal._check()
        await journal._connection.api(f"STREAM.UPDATE.{nats_place.name}", **{**config, "max_msgs": -1})
        await journal._check()
        assert journal.id == was
        async with opened(nats_place) as other:
            assert other.id == was
            assert other.last_expired == other.oldest - 1 > 0


async def test_rows_are_made_again(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        await journal.commit(commit(message("a", session="one")))
        await journal.commit(commit(message("b", "t", session="two"), stream="t", state="ended"))
        await journal._state.write()
        was = await journal.sessions()
        await journal._connection.api(f"STREAM.DELETE.{nats_place.name}-state")
    async with opened(nats_place) as other:
        await until(lambda: _same(other, was))
        assert other.id == journal.id


async def _same(journal: NatsJournal, sessions: list[dict[str, Any]]) -> bool:
    found = await journal.sessions()
    return [one["session"] for one in found] == [one["session"] for one in sessions]


async def test_many_daemons_agree(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        place = parse_nats_url(server.url)
        journals = [await NatsJournal.open(place) for _ in range(5)]
        await journals[0].commit(commit(message("a")))
        was = journals[0].id
        for _ in range(3):
            wipe(server)
            await until(lambda was=was: len({one.id for one in journals}) == 1 and journals[0].id != was)  # type: ignore[misc]
            was = journals[0].id
        for journal in journals:
            assert journal.statistics()["resets"] == 3
            await journal.close()


async def test_whatever_happens_to_the_store(tmp_path: Path) -> None:
    """Repeatedly, by a seed: all daemons agree on one journal, and every stream continues."""
    rounds = int(os.environ.get("TOOLTAP_NATS_WIPES", "8"))
    chance = random.Random(os.environ.get("TOOLTAP_NATS_SEED", "1"))
    (tmp_path / "nats").mkdir()
    with NatsServer(tmp_path / "nats") as server:
        place = parse_nats_url(server.url)
        async with opened(place) as one, opened(place) as other:
            journals = [one, other]
            seen = [Published(journal) for journal in journals]
            for journal in journals:
                await journal.listen()
            back_up(server, tmp_path / "backup")
            for _ in range(rounds):
                for _ in range(chance.randint(0, 12)):
                    await publish(chance.choice(journals), chance.choice("abc"), chance.choice(["m", "m" * 3_000]))
                if chance.random() < 0.3:
                    back_up(server, tmp_path / "backup")
                was = one.id
                match chance.choice(("wipe", "restore", "truncate", "purge", "delete", "damage")):
                    case "wipe":
                        wipe(server)
                    case "restore":
                        restore(server, tmp_path / "backup")
                    case "truncate":
                        truncate(server)
                    case "purge":
                        await one._connection.retry(one._connection.api, f"STREAM.PURGE.{place.name}")
                    case "delete":
                        await one._connection.retry(delete, one)
                    case "damage":
                        await one._connection.retry(one._connection.publish, one._messages.subject("a"), [b"nonsense"])
                for journal in journals:
                    journal._connection.require_verification()
                    await publish(journal, chance.choice("abc"), "after")
                await until(lambda: one.id == other.id)
                if one.id == was:
                    assert one.statistics()["resets"] == other.statistics()["resets"]
                found = await everything(one)
                assert found == await everything(other)
                assert texts(found)[-1] == "after"
                assert [event.seq for event in found] == sorted({event.seq for event in found})
                for published in seen:
                    await until(lambda published=published, found=found: published.events[-1:] == found[-1:])  # type: ignore[misc]


async def publish(journal: NatsJournal, stream: str, text: str) -> None:
    """One line, as a publisher that resumes where the daemon says."""
    with anyio.fail_after(30):
        while True:
            stored = await journal.load_stream(stream)
            lines, place = (0, 0) if stored is None else (stored.info.lines, stored.info.position)
            try:
                return await journal.commit(commit(message(text, stream), stream=stream, base=lines, position=place))
            except (JournalError, StreamConflictError):
                continue


def test_clients_of_a_daemon_whose_store_is_wiped(tmp_path: Path) -> None:
    (tmp_path / "nats").mkdir()
    with NatsServer(tmp_path / "nats") as server, running(tmp_path, journal=server.url) as daemon:
        subscriber, publisher = daemon.subscribe(after="start"), daemon.connect()
        publisher.send("ingest", stream="s", framing="tapped", dialect="acp", provider="p")
        publisher.until("ingesting")
        publisher.write(b"".join(b'{"line":"nonsense %d"}\n' % number for number in range(3)))
        while publisher.until("ack")[-1]["lines"] < 3:
            pass
        was = daemon.daemon.journal.id
        seen = subscriber.until("live")
        while sum(one.get("kind") == "unparsed" for one in seen) < 3:
            seen.append(subscriber.read())
        wipe(server)

        again = subscriber.until("gap")
        assert again[-2]["op"] == "subscribed"
        assert again[-2]["journal"] not in (was, "")
        assert again[-1] == {"op": "gap", "from": 1, "to": 0, "reason": "reset"}
        publisher.write(b'{"line":"nonsense 3"}\n')
        (error,) = publisher.rest()
        assert (error["op"], error["code"]) == ("error", "journal")
        assert "was replaced: it has 0 lines of stream s; resume there" in error["message"]
        with Wire(daemon.path) as wire:
            assert wire.read()["journal"] == again[-2]["journal"]
            wire.send("ingest", stream="s", framing="tapped", dialect="acp", provider="p")
            assert wire.until("ingesting")[-1]["lines"] == 0
            wire.write(b'{"line":"nonsense 4"}\n')
            wire.until("ack")
            while subscriber.read().get("kind") != "unparsed":
                pass


@pytest.mark.parametrize("change", ["restored", "truncated"])
def test_clients_of_a_daemon_whose_store_has_less(tmp_path: Path, change: str) -> None:
    """The publisher resumes where it is told to; then each of its lines is there once."""
    (tmp_path / "nats").mkdir()
    lines = [b'{"line":"%d %b"}\n' % (number, b"x" * 500) for number in range(50)]
    with NatsServer(tmp_path / "nats") as server, running(tmp_path, journal=server.url) as daemon:
        with daemon.connect() as publisher:
            assert publish_after(publisher, lines[:20]) == 0
        back_up(server, tmp_path / "backup")
        with daemon.connect() as publisher:
            assert publish_after(publisher, lines) == 20
        was = daemon.daemon.journal.id
        subscriber = daemon.subscribe(after="now")
        subscriber.until("live")
        if change == "restored":
            restore(server, tmp_path / "backup")
        else:
            truncate(server)

        again = subscriber.until("gap")
        assert again[-2]["journal"] not in (was, "")
        assert again[-1]["reason"] == "reset"
        with daemon.connect() as publisher:
            resumed = publish_after(publisher, lines)
        assert resumed == 20 if change == "restored" else 0 < resumed < 50
        found = daemon.subscribe(after="start", follow=False).rest()
        assert [one["line"] for one in found if one.get("kind") == "unparsed"] == list(range(1, 51))


def publish_after(wire: Wire, lines: list[bytes]) -> int:
    """Publish the lines that the daemon does not have, a commit for each. Returns how many it has had."""
    wire.send("ingest", stream="s", framing="tapped", dialect="acp", provider="p")
    stored: int = wire.until("ingesting")[-1]["lines"]
    for number, line in enumerate(lines[stored:], stored + 1):
        wire.write(line)
        while wire.until("ack")[-1]["lines"] < number:
            pass
    return stored


async def test_forgotten_chain_is_found_again(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """More streams than there are chains in memory: each continues all the same."""
    monkeypatch.setattr("tooltap.daemon.journal.nats.commits.CHAINS_IN_MEMORY", 2)
    async with opened(nats_place) as one, opened(nats_place) as other:
        for line in range(3):
            for stream in "abcde":
                await one.commit(commit(message(str(line), stream), stream=stream, base=line))
        assert len(await everything(one)) == 15
        taken = await position(other, "a")
        await other.commit(commit(base=3, lines=0, stream="a", position=taken.position))
        with pytest.raises(StreamConflictError):
            await one.commit(commit(message("lost", "a"), stream="a", base=3))
