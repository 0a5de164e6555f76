"""A journal that is to hold no secrets holds none, and its publishers and agents get what they got without that."""

from __future__ import annotations

import json
import zlib
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.daemon.answering import OPENING, SESSION, Tap, refusal, result, turn_end
from tests.daemon.nats_server import NatsServer
from tests.daemon.publishing import daemon, events, journal_of, publish, tapped
from tests.daemon.running import Running, Wire, running
from tests.secrets.shapes import fakes
from tooltap.daemon.config import load_config
from tooltap.daemon.ingest import connection
from tooltap.daemon.ingest.answering import MASKED_KEY
from tooltap.daemon.ingest.live_stream import MASKED_INPUT
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


# -- what is for the agent --------------------------------------------------------------------------------------------


def idle(wire: Wire) -> Tap:
    return Tap().connect(wire).tap(*OPENING, ("out", turn_end()))


def stored_bytes(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())


def failures(served: Running) -> list[str]:
    with served.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        return [one["data"]["reason"] for one in wire.rest() if one.get("code") == "send-failed"]


@pytest.mark.parametrize("journal", ["file", "nats"])
def test_prompt_that_waits_for_its_publisher_is_not_stored_with_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: str
) -> None:
    """The publisher gets it whole as long as the daemon runs, and afterwards not at all."""
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    (tmp_path / "stored").mkdir()
    with ExitStack() as stack:
        place = str(tmp_path / "stored" / "journal.db")
        if journal == "nats":
            place = f"{stack.enter_context(NatsServer(tmp_path / 'stored')).url}/j"
        with running(tmp_path, journal=place, mask_journal=True) as served, served.connect() as client:
            with served.connect() as wire:
                tap = idle(wire)
                for text in (f"use {SECRET}", "use none"):
                    assert not client.ask("send", session=SESSION, text=text)["delivered"]
                first, second = (tap.receive() for _ in range(2))
            with served.connect() as wire:
                again = [tap.connect(wire).receive(), tap.receive()]
                assert [one["payload"] for one in again] == [first["payload"], second["payload"]]
                assert SECRET in again[0]["payload"]["line"]
                stored = stored_bytes(tmp_path / "stored")
                assert (SECRET.encode() in stored, b"[masked " in stored) == (False, True)
        with running(tmp_path, journal=place, mask_journal=True) as served:
            with served.connect() as wire:
                kept = tap.connect(wire).receive()
                assert kept["payload"] == second["payload"]  # it has no secret
                wire.send("end")
                tap.until("done")
                assert not tap.has_frames
            assert failures(served)[0] == connection.NOT_STORED
    assert SECRET.encode() not in stored_bytes(tmp_path / "stored")


def test_prompt_is_stored_whole_where_nothing_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path) as served, served.connect() as client, served.connect() as wire:
        tap = idle(wire)
        assert not client.ask("send", session=SESSION, text=f"use {SECRET}")["delivered"]
    assert SECRET.encode() in stored_bytes(tmp_path)
    with running(tmp_path) as served, served.connect() as wire:
        assert SECRET in tap.connect(wire).receive()["payload"]["line"]


def test_prompt_with_a_secret_in_its_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is stored to know the prompt again; a masked one would be that of other prompts, too."""
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path, mask_journal=True) as served, served.connect() as client, served.connect() as wire:
        tap = idle(wire)
        client.send("send", id=1, session=SESSION, text="one", key=f"run {SECRET}")
        assert refusal(client) == ("refused", MASKED_KEY)
        assert not client.ask("send", session=SESSION, text="two", key="run 2")["delivered"]
        assert "two" in tap.receive()["payload"]["line"]
    assert SECRET.encode() not in stored_bytes(tmp_path)


@pytest.mark.parametrize("masks", [False, True])
def test_call_whose_input_is_masked_is_not_allowed_from_here(tmp_path: Path, *, masks: bool) -> None:
    """Claude Code runs the input that the answer has, and would run the mask."""
    asks = {
        "type": "control_request",
        "request_id": "r",
        "request": {
            "subtype": "can_use_tool",
            "tool_name": "Bash",
            "input": {"command": f"curl -H 'Authorization: Bearer {SECRET}' https://h/"},
            "tool_use_id": "toolu_1",
        },
    }
    with running(tmp_path, mask_journal=masks) as served, served.connect() as wire, served.connect() as client:
        tap = Tap().connect(wire, dialect="claude-stream")
        init = {"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/w", "tools": [], "model": "m"}
        tap.tap(("out", init), ("out", asks))
        [one] = client.ask("waiting")["waiting"]
        assert one["answerable"] is True
        assert [option["id"] for option in one["options"]] == (["deny"] if masks else ["allow", "deny"])
        assert one.get("withheld") == (MASKED_INPUT if masks else None)
        client.send("answer", id=1, permissionId="r", outcome="allowed")
        if masks:
            assert refusal(client) == ("refused", MASKED_INPUT)
            client.send("answer", id=2, permissionId="r", outcome="denied", message="no")
        frame = tap.receive()
        tap.write(frame)
        assert result(client)["delivered"]
        assert (SECRET in frame["payload"]["line"]) is not masks
        assert "[masked" not in frame["payload"]["line"]


@pytest.mark.parametrize("masks", [False, True])
def test_question_with_a_masked_text_can_only_be_denied(tmp_path: Path, *, masks: bool) -> None:
    """The answer to Claude Code repeats the questions."""
    asked = {"question": f"Is {SECRET} right?", "header": "Key", "options": [{"label": "Yes"}, {"label": "No"}]}
    asks = {
        "type": "control_request",
        "request_id": "r",
        "request": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": [asked]}},
    }
    with running(tmp_path, mask_journal=masks) as served, served.connect() as wire, served.connect() as client:
        tap = Tap().connect(wire, dialect="claude-stream")
        init = {"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/w", "tools": [], "model": "m"}
        tap.tap(("out", init), ("out", asks))
        [one] = client.ask("waiting")["waiting"]
        assert (one["answerable"], one.get("withheld")) == (True, MASKED_INPUT if masks else None)
        client.send("answer", id=1, permissionId="r", outcome="denied")
        frame = tap.receive()
        tap.write(frame)
        assert result(client)["delivered"]
