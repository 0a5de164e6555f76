"""A journal that is to hold no secrets holds none, and its publishers resume as usual."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from tests.daemon.publishing import daemon, events, journal_of, publish, tapped
from tests.secrets.shapes import fakes
from tooltap.daemon.config import load_config
from tooltap.daemon.ingest.offload import Offload
from tooltap.protocol.frames import Ingesting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

SECRET = next(fake.secret for fake in fakes(5) if fake.secret.startswith("ghp_"))
LINES = [
    {"do": "begin"},
    {"do": "call", "id": "1", "name": "Bash", "input": {"command": f"curl -u me:{SECRET} https://h/"}},
    {"do": "result", "id": "1", "output": {"stdout": f"GITHUB_TOKEN={SECRET}"}},
    {"do": "chunk", "text": f"half of it: {SECRET[:20]}"},
    {"do": "chunk", "text": SECRET[20:]},
    {"do": "finish"},
    {"do": "begin", "text": SECRET},
]


async def written(path: Path, *, masks: bool, long_bytes: int = 65_536, huge_bytes: int = 1 << 20) -> bytes:
    """Publish the lines, and return all bytes of the journal's files."""
    async with daemon(path, masks=masks, offload=Offload(long_bytes, huge_bytes)) as streams:
        publisher = await publish(streams, prompt=f"use {SECRET}")
        for line in LINES:
            await publisher.lines(line)
        await publisher.record(op="end")
        await publisher.ingest.finish()
        found = json.dumps(await events(journal_of(streams)))
        assert ("[masked " in found) is masks
        assert (SECRET in found) is not masks
    return b"".join(one.read_bytes() for one in path.parent.iterdir())


async def test_nothing_of_the_stream_holds_a_secret(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    assert SECRET.encode() in await written(tmp_path / "a" / "journal.db", masks=False)
    assert SECRET.encode() not in await written(tmp_path / "b" / "journal.db", masks=True)


@pytest.mark.parametrize(("long_bytes", "huge_bytes"), [(10, 1_000_000), (10, 20)])
@pytest.mark.process
async def test_long_lines_are_masked(tmp_path: Path, long_bytes: int, huge_bytes: int) -> None:
    """Those that are read in a thread, or in a process."""
    path = tmp_path / "journal.db"

    assert SECRET.encode() not in await written(path, masks=True, long_bytes=long_bytes, huge_bytes=huge_bytes)


async def test_publishers_compare_the_line_as_they_sent_it(tmp_path: Path) -> None:
    line = json.dumps(LINES[1]).encode()
    async with daemon(tmp_path / "journal.db", masks=True) as streams:
        publisher = await publish(streams)
        await publisher.ingest.feed(tapped(LINES[0]) + tapped(line))
        await publisher.ingest.finish()
        again = await publish(streams)

        assert again.last(Ingesting).crc == f"{zlib.crc32(line):08x}"


def test_only_a_journal_elsewhere_is_masked_unless_it_is_said() -> None:
    assert not load_config().masks_journal
    assert load_config(mask_journal=True).masks_journal
    assert load_config(journal="nats://127.0.0.1:4222").masks_journal
    assert not load_config(journal="nats://127.0.0.1:4222", mask_journal=False).masks_journal
