"""`Workers`: several processes yield what one would, within their bounds, and none is left behind."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tooltap.daemon.system import workers
from tooltap.daemon.system.workers import WorkerDiedError, Workers

pytestmark = pytest.mark.process

KIB = 1024


class OddError(Exception):
    """Cannot be unpickled."""

    def __init__(self, one: str, two: object) -> None:
        super().__init__(f"{one} {two}")
        self.two = two


def many_values(item: int) -> Iterator[bytes | tuple[int, int]]:
    for part in range(item % 5):
        yield b"%d.%d " % (item, part) * KIB
    yield item, os.getpid()


def failing(item: int) -> Iterator[int]:
    yield item
    if item == 7:
        raise FileNotFoundError(2, "No such file", "seven")
    if item == 9:
        raise OddError("an", "oddity")
    if item == 11:
        raise OddError("an", threading.Lock())


def dying(item: int) -> Iterator[int]:
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    yield item


class Dropped:
    """Whose end the interpreter calls, and ignores what is raised there."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def dropping(item: int) -> Iterator[int]:
    Dropped()
    yield item


def leaving(item: int, *, folder: Path) -> Iterator[int]:
    """Wait for ever after the first value; say that it was cleaned up."""
    workers.PATIENCE = 60.0  # in this process, too
    here = folder / str(os.getpid())
    here.touch()
    try:
        yield item
        while True:
            pass
    finally:
        here.unlink()


def heavy(item: int) -> int:
    return workers.WORTH


def light(item: int) -> int:
    return 1


def test_values_come_in_order_from_several_processes() -> None:
    with Workers(many_values, range(60), jobs=3, weigh=heavy) as pool:
        found = list(pool)
    wanted = [value for item in range(60) for value in many_values(item)]

    assert [one for one in found if isinstance(one, bytes)] == [one for one in wanted if isinstance(one, bytes)]
    ends = [one for one in found if isinstance(one, tuple)]
    assert [item for item, _ in ends] == list(range(60))
    assert len({pid for _, pid in ends} - {os.getpid()}) == 3


@pytest.mark.parametrize(("items", "jobs", "weigh"), [(60, 1, heavy), (60, 3, light), (1, 3, heavy), (0, 3, heavy)])
def test_little_work_and_one_job_need_no_other_process(items: int, jobs: int, weigh: object) -> None:
    with Workers(many_values, range(items), jobs=jobs, weigh=weigh) as pool:  # type: ignore[arg-type]
        assert {one[1] for one in pool if isinstance(one, tuple)} <= {os.getpid()}


def test_items_can_be_read_side_by_side_and_in_part() -> None:
    with Workers(many_values, range(4), jobs=4, weigh=heavy) as pool:
        last, first = pool.values(3), pool.values(0)
        assert next(last) == b"3.0 " * KIB
        assert next(first)[0] == 0
        assert next(last) == b"3.1 " * KIB
        assert next(pool.values(2)) == b"2.0 " * KIB


def test_what_is_ahead_of_its_turn_is_held_in_memory_then_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_MEMORY", 20 * KIB)
    with Workers(many_values, range(60), jobs=2, weigh=heavy) as pool:
        assert next(pool.values(59)) == b"59.0 " * KIB
        assert 0 < pool._held._in_memory <= 20 * KIB
        assert pool._held._written > 400 * KIB
        found = [value for item in range(59) for value in pool.values(item) if isinstance(value, bytes)]
        assert (pool._held._in_memory, pool._held._written) == (0, 0)
    assert found == [value for item in range(59) for value in many_values(item) if isinstance(value, bytes)]


def test_workers_wait_when_no_more_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_MEMORY", 0)
    monkeypatch.setattr(workers, "MAX_FILE", 0)
    with Workers(many_values, range(60), jobs=2, weigh=heavy) as pool:
        for item in range(60):
            assert len(list(pool.values(item))) == item % 5 + 1
            assert pool._held._in_memory + pool._held._written <= 2 * workers.MESSAGE


def test_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workers, "MAX_MEMORY", 0)
    monkeypatch.setattr(os, "pwrite", full)
    with Workers(many_values, range(60), jobs=2, weigh=heavy) as pool:
        with pytest.raises(OSError, match="No space left on device") as raised:
            next(pool.values(59))
        assert raised.value.filename == tempfile.gettempdir()


def nested(item: int) -> Iterator[tuple[int, list[bytes]]]:
    for part in range(100):
        yield part, [b"x" * KIB] * 10


def test_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    receive = Workers._receive

    def watched(pool: Workers[int, object], wanted: int) -> None:
        nonlocal longest
        receive(pool, wanted)
        received = (message for batch in pool._received for message in batch if isinstance(message, bytes))
        longest = max(longest, *map(len, received), 0)

    monkeypatch.setattr(Workers, "_receive", watched)
    with Workers(nested, range(4), jobs=2, weigh=heavy) as pool:
        assert sum(len(lines) for _, lines in pool) == 4_000
    assert 0 < longest <= workers.MESSAGE + 11 * KIB


def test_error_is_raised_when_it_is_the_items_turn() -> None:
    with Workers(failing, range(20), jobs=2, weigh=heavy) as pool:
        assert [value for item in range(7) for value in pool.values(item)] == list(range(7))
        with pytest.raises(FileNotFoundError) as raised:
            list(pool.values(7))
        assert raised.value.filename == "seven"
        assert list(pool.values(8)) == [8]
        with pytest.raises(OddError, match=r"^an oddity$") as odd:
            list(pool.values(9))
        assert odd.value.two == "oddity"
        assert list(pool.values(10)) == [10]
        with pytest.raises(RuntimeError, match=r"^OddError: an <unlocked"):
            list(pool.values(11))


def test_killed_worker_is_an_error() -> None:
    with (
        pytest.raises(WorkerDiedError, match=r"^a worker process was ended by signal 9 before"),
        Workers(dying, range(20), jobs=2, weigh=heavy) as pool,
    ):
        list(pool)


def test_worker_ends_where_its_exception_is_ignored(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(WorkerDiedError, match=r"^a worker process was ended with exit code 143 before"),
        Workers(dropping, range(20), jobs=2, weigh=heavy) as pool,
    ):
        list(pool)
    assert capfd.readouterr().err == ""


def test_workers_clean_up_when_nobody_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 60.0)
    with Workers(partial(leaving, folder=tmp_path), range(2), jobs=2, weigh=heavy) as pool:
        processes = [one.process for one in pool._workers]
        while len(list(tmp_path.iterdir())) < 2:
            pass
    assert list(tmp_path.iterdir()) == []
    assert [one.exitcode for one in processes] == [128 + signal.SIGTERM] * 2


def deaf(item: int) -> Iterator[int]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield item
    while True:
        pass


def test_worker_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    with Workers(deaf, range(2), jobs=2, weigh=heavy) as pool:
        processes = [one.process for one in pool._workers]
    assert all(one.exitcode for one in processes)
