"""Display outputs: in memory, bounded in bytes and time, and fetched like any other output body."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.constants import write_settings
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Running, Wire, running
from tests.programs import require
from tooltap.daemon.server.requests import CannotFitError, OutputCache


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> OutputCache:
    return OutputCache("j1", max_bytes=1_000, ttl=60, clock=clock)


def test_output_expires(cache: OutputCache, clock: Clock) -> None:
    output_id = cache.put(b"one\n", "text/plain", "file", "a.txt", "text")
    clock.now += 59.9
    found = cache.get(output_id)
    clock.now += 0.1

    assert found is not None
    assert (found.data, found.type, found.path, found.language, found.lines) == (b"one\n", "file", "a.txt", "text", 1)
    assert cache.get(output_id) is None
    assert cache.has_expired(output_id)
    assert cache.statistics() == {"kept": 0, "bytes": 0, "stored": 1, "expired": 1, "evicted": 0}


def test_oldest_are_evicted(cache: OutputCache) -> None:
    ids = [cache.put(bytes(400), "text/plain", "file") for _ in range(3)]

    assert [cache.get(one) is not None for one in ids] == [False, True, True]
    assert cache.has_expired(ids[0])
    assert cache.statistics() == {"kept": 2, "bytes": 800, "stored": 3, "expired": 0, "evicted": 1}


def test_body_that_cannot_fit_evicts_nothing(cache: OutputCache) -> None:
    cache.put(bytes(400), "text/plain", "file")
    with pytest.raises(CannotFitError, match="1001 bytes do not fit: display outputs may have 1000 bytes in all"):
        cache.put(bytes(1_001), "text/plain", "file")

    assert cache.statistics()["kept"] == 1


def test_bodies_being_received_count(cache: OutputCache) -> None:
    cache.put(bytes(400), "text/plain", "file")
    with cache.room(700):
        kept_meanwhile = cache.statistics()["kept"]
        with pytest.raises(CannotFitError), cache.room(400):
            pass
    cache.put(bytes(400), "text/plain", "file")

    assert (kept_meanwhile, cache.statistics()["kept"]) == (0, 1)


def test_unknown_id_has_not_expired(cache: OutputCache, clock: Clock) -> None:
    there = OutputCache("j2", max_bytes=1_000, ttl=60, clock=clock).put(b"x", "text/plain", "file")
    after_restart = OutputCache("j1", max_bytes=1_000, ttl=60, clock=clock)

    assert not cache.has_expired(there)
    assert not cache.has_expired("display-0123456789abcdef-00000000")
    assert after_restart.has_expired(cache.put(b"x", "text/plain", "file"))


# -- over the socket ----------------------------------------------------------------------------------------------


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, output_cache_bytes=100_000) as daemon:
        yield daemon


@pytest.fixture
def wire(daemon: Running) -> Wire:
    return daemon.connect()


def send_store(wire: Wire, body: bytes, size: int | None = None, **about: Any) -> None:
    frame = {"op": "store", "id": 1, "bytes": len(body) if size is None else size, **about}
    wire.write(json.dumps(frame).encode() + b"\n" + body)


FILE: dict[str, Any] = {"type": "file", "mimeType": "text/x-python", "path": "src/app.py", "language": "python"}


def test_stored_body_is_fetched(wire: Wire) -> None:
    send_store(wire, b"import os\n\nprint(os.name)\n", **FILE)
    output_id = wire.read()["result"]["outputId"]
    whole = wire.ask("output", outputId=output_id)
    line = wire.ask("output", outputId=output_id, offset=2, length=1, unit="lines")

    assert whole == {
        "text": "import os\n\nprint(os.name)\n",
        "offset": 0,
        "length": 26,
        "total": 26,
        "unit": "bytes",
        "mimeType": "text/x-python",
        "type": "file",
        "path": "src/app.py",
        "language": "python",
    }
    assert (line["text"], line["offset"], line["length"], line["total"]) == ("print(os.name)\n", 2, 1, 3)


def test_frames_may_follow_a_body(wire: Wire) -> None:
    send_store(wire, b'{"op":"ping"}\n', type="file", mimeType="text/plain")
    wire.send("ping", id=2)

    assert [wire.read()["id"] for _ in range(2)] == [1, 2]
    assert wire.ask("stats")["outputs"]["bytes"] == 14


def test_expired_differs_from_not_found(tmp_path: Path) -> None:
    with running(tmp_path, output_ttl=0.001) as daemon:
        wire = daemon.connect()
        send_store(wire, b"gone", **FILE)
        output_id = wire.read()["result"]["outputId"]
        while wire.ask("stats")["outputs"]["kept"]:
            pass
        wire.send("output", id=2, outputId=output_id)
        expired = wire.read()["error"]
        wire.send("output", id=3, outputId=f"{output_id[:-1]}!")
        never = wire.read()["error"]

    assert expired == {
        "code": "expired",
        "message": f"output '{output_id}' has expired: it was held in memory for a limited time",
    }
    assert never["code"] == "not-found"


def test_outputs_expire_with_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        wire = daemon.connect()
        send_store(wire, b"gone", **FILE)
        output_id = wire.read()["result"]["outputId"]
    with running(tmp_path) as daemon:
        wire = daemon.connect()
        wire.send("output", id=2, outputId=output_id)

        assert wire.read()["error"]["code"] == "expired"


@pytest.mark.parametrize(
    ("size", "code", "sentence"),
    [
        (100_001, "too-large", "store: 100001 bytes do not fit: display outputs may have 100000 bytes in all"),
        (5, "bad-frame", "store: only 4 of 5 bytes were received"),
        (-1, "bad-frame", "store: `bytes`: expected `int` >= 0"),
    ],
)
def test_incomplete_or_too_large_body_ends_the_connection(
    daemon: Running, wire: Wire, size: int, code: str, sentence: str
) -> None:
    send_store(wire, b"four", size, **FILE)
    wire.finish()
    *_, answer = wire.rest()

    assert (answer["id"], answer["error"]) == (1, {"code": code, "message": sentence})
    assert daemon.stats()["outputs"]["stored"] == 0


def test_memory_is_bounded(tmp_path: Path) -> None:
    config = tmp_path / "tooltap.toml"
    constants = write_settings(config, "output_cache_bytes = 4_194_304\n")
    body = b"0123456789abcde\n" * 16_384
    with DaemonProcess(tmp_path, "--config", config, **constants).wait_ready() as daemon, daemon.connect() as wire:
        ids = []
        for number in range(1_001):
            if number == 1:
                before = memory(daemon)
            send_store(wire, body, type="file", mimeType="text/plain")
            ids.append(wire.read()["result"]["outputId"])
        grown = memory(daemon) - before
        outputs = wire.ask("stats")["outputs"]
        last = wire.ask("output", outputId=ids[-1])
        wire.send("output", id=2, outputId=ids[0])
        first = wire.read()["error"]["code"]

    assert outputs == {"kept": 16, "bytes": 4_194_304, "stored": 1_001, "expired": 0, "evicted": 985}
    assert grown < 16_000_000  # 262 MB have passed
    assert (last["total"], first) == (len(body), "expired")


def memory(daemon: DaemonProcess) -> int:
    """Resident bytes."""
    require("ps")
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(daemon.process.pid)], capture_output=True, check=True)
    return int(told.stdout) * 1024
