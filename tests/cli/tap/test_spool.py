"""The output of `run` reaches the journal once and in order, or the loss is reported, whatever fails."""

from __future__ import annotations

import json
import random
import re
import resource
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.cli.command import WITHOUT_BYTECODE, Child, sentence
from tests.cli.tap.spooling import Place, line, until
from tests.cli.tap.test_run import agent
from tests.daemon.constants import VARIABLE
from tests.daemon.taps.test_follow_machines import PRIVATE, require_machines

ECHO = agent("import sys\nfor line in sys.stdin: print(line, end='')")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def prints(lines: int) -> list[str]:
    return agent(f"for n in range({lines}): print('{{\"n\":%d}}' % n)")


def output(lines: int) -> bytes:
    return b"".join(map(line, range(lines)))


def echo(run: Child, numbers: range) -> None:
    """Let the agent print these lines one after the other."""
    for number in numbers:
        run.write(line(number))
        assert run.line() == line(number)


def test_next_daemon_drains_the_spool(place: Place) -> None:
    finished = [place.run(*prints(200)) for _ in range(2)]

    assert [(one.returncode, one.stdout) for one in finished] == [(0, output(200))] * 2
    assert len(place.spools) == 2
    with place.serving() as daemon:
        daemon.wait_until_ended(2)
        assert list(daemon.journal().values()) == [list(range(200))] * 2


def test_late_daemon_gets_all_lines_from_the_publisher(place: Place) -> None:
    with place.start(*ECHO) as run:
        echo(run, range(100))
        with place.serving() as daemon:
            until(lambda: daemon.ask("stats")["connections"]["publishing"] == 1)
            echo(run, range(100, 200))
            assert run.end()[:2] == (0, b"")
            daemon.wait_until_ended(1)
            assert list(daemon.journal().values()) == [list(range(200))]


def test_repeatedly_killed_daemon_gets_each_line_once(place: Place) -> None:
    chance = random.Random(1)
    printed = 0

    def print_some(run: Child, most: int) -> None:
        nonlocal printed
        more = chance.randint(1, most)
        echo(run, range(printed, printed + more))
        printed += more

    with place.start(*ECHO) as run:
        print_some(run, 5)
        for _ in range(3):
            with place.serving() as daemon:
                until(lambda: daemon.ask("stats")["connections"]["publishing"] == 1)
                print_some(run, 60)
                daemon.process.kill()
            print_some(run, 30)
        with place.serving() as daemon:
            print_some(run, 10)
            assert run.end()[:2] == (0, b"")
            daemon.wait_until_ended(1)
            assert list(daemon.journal().values()) == [list(range(printed))]


def test_killed_publisher_leaves_whole_lines_in_order(place: Place) -> None:
    """All lines on disk at the time of the kill arrive, each once."""
    chance = random.Random(1)
    with ExitStack() as stack:
        printed = []
        for number in range(3):
            run = stack.enter_context(place.start(*ECHO))
            echo(run, range(1))
            until(lambda: sum(b'"n' in path.read_bytes() for path in place.spools) == number + 1)  # noqa: B023
            printed.append(chance.randint(2, 300))
            echo(run, range(1, printed[-1]))
            run.kill()
        spooled = sorted(path.read_bytes().count(b'\\"n\\"') for path in place.spools)
        with place.serving() as daemon:
            daemon.wait_until_ended(3, "suspended")
            found = sorted(daemon.journal().values(), key=len)

    for lines, least, most in zip(found, spooled, sorted(printed), strict=True):
        assert lines == list(range(len(lines)))
        assert least <= len(lines) <= most


def test_live_daemon_drains_spool_of_killed_publisher(place: Place) -> None:
    with place.serving() as daemon, place.start(*ECHO) as run:
        echo(run, range(50))
        until(lambda: list(daemon.journal().values()) == [list(range(50))])
        echo(run, range(50, 100))
        run.kill()
        daemon.wait_until_ended(1, "suspended")
        [lines] = daemon.journal().values()

    assert lines == list(range(len(lines)))
    assert 50 <= len(lines) <= 100


@pytest.mark.parametrize("nth", [2, 3, 7])
def test_publisher_killed_while_writing(nth: int, place: Place) -> None:
    """The first write is the head of the spool, the others are one line each; the last one is lost."""
    with place.start(*ECHO, TOOLTAP_FAILPOINT=f"spool-write:{nth}") as run:
        for number in range(nth - 1):
            run.write(line(number))
            assert run.line() == line(number)
            until(lambda: place.spooled(number) or run.process.poll() is not None)  # noqa: B023
        assert run.process.wait(60) == -9
    with place.serving() as daemon:
        daemon.wait_until_ended(1, "suspended")
        assert list(daemon.journal().values()) == ([list(range(nth - 2))] if nth > 2 else [])


# -- removed in use --------------------------------------------------------------------------------------------------


def removed(spool: Path) -> None:
    spool.unlink()


def renamed(spool: Path) -> None:
    spool.rename(spool.with_name("elsewhere"))


def replaced(spool: Path) -> None:
    shutil.copyfile(spool, spool.with_name("copy"))
    spool.with_name("copy").rename(spool)


def folder_removed(spool: Path) -> None:
    shutil.rmtree(spool.parent)


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("change", [removed, renamed, replaced, folder_removed])
def test_spool_that_is_gone_is_made_again(change: Callable[[Path], None], is_killed: bool, place: Place) -> None:
    """The tap has its lines. It makes the spool again while the agent says nothing, and when it ends."""
    with place.start(*ECHO) as run:
        echo(run, range(50))
        until(lambda: place.spooled(49))
        [spool] = place.spools
        before = spool.stat().st_ino
        change(spool)
        if is_killed:
            until(lambda: any(has_all(one, 50, before) for one in place.spools))
            run.kill()
        else:
            echo(run, range(50, 60))
            code, _, said = run.end()
            assert (code, said.decode().count("60 of 60 lines wait in the spool: no daemon")) == (0, 1)
    with place.serving() as daemon:
        daemon.wait_until_ended(1, "suspended" if is_killed else "ended")
        assert list(daemon.journal().values()) == [list(range(50 if is_killed else 60))]


def has_all(spool: Path, lines: int, but: int) -> bool:
    return spool.stat().st_ino != but and spool.read_bytes().count(b'\\"n\\"') == lines


def test_spool_that_cannot_be_made_again_is_reported(place: Place) -> None:
    with place.start(*ECHO) as run:
        echo(run, range(50))
        until(lambda: place.spooled(49))
        shutil.rmtree(place.folder / "spool")
        (place.folder / "spool").touch()
        code, _, said = run.end()

    assert code == 0
    assert b"50 of 50 lines are lost (the spool cannot be written: File exists): no daemon is listening at" in said


# -- disks -----------------------------------------------------------------------------------------------------------


def check_that_the_rest_is_told(place: Place, lines: int, reason: str) -> None:
    with place.serving() as daemon:
        daemon.wait_until_ended(1)
        [found] = daemon.journal().values()
    *stored, lost = found
    assert stored == list(range(len(stored)))
    assert 0 < len(stored) < lines
    assert lost == (lines - len(stored), reason)


def test_full_disk_loss_is_reported(place: Place) -> None:
    """Files are limited to 16 KiB: the disk takes a part of a record and then nothing more."""
    finished = place.run(*prints(1_000), file_kib=16)

    assert (finished.returncode, finished.stdout) == (0, output(1_000))
    report = re.fullmatch(
        r"(\d+) of 1000 lines wait in the spool and (\d+) are lost"
        r" \(the spool cannot be written: File too large\): no daemon is listening at .*",
        sentence(finished),
    )
    assert report is not None
    assert int(report[1]) + int(report[2]) == 1_000
    check_that_the_rest_is_told(place, 1_000, "the spool cannot be written: File too large")


SMALL = """
spool=$0 kept=$1; shift
mount -t tmpfs -o size=64k,mode=700 tmpfs "$spool" || exit 99
"$@"; code=$?
"$PYTHON" -m tooltap.cli doctor --json >"$kept/doctor"
cp "$spool"/*.spool "$kept" && exit $code
"""


def test_spool_on_a_full_disk_keeps_what_fits(place: Place) -> None:
    """The disk of the spool is mounted for the tap and the doctor alone; its spool is then copied from there."""
    require_machines()
    spool, kept = place.folder / "spool", place.folder / "kept"
    spool.mkdir(mode=0o700)
    kept.mkdir()
    finished = place.run(*prints(1_000), within=[*PRIVATE, "sh", "-c", SMALL, spool, kept], PYTHON=sys.executable)

    assert (finished.returncode, finished.stdout) == (0, output(1_000))
    reason = "the spool cannot be written: No space left on device"
    said = rf"(\d+) of 1000 lines wait in the spool and (\d+) are lost \({reason}\): no daemon is listening at .*"
    report = re.fullmatch(said, sentence(finished))
    assert report is not None, finished.stderr
    assert int(report[1]) + int(report[2]) == 1_000
    findings = json.loads((kept / "doctor").read_bytes())["findings"]
    full = [one["text"] for one in findings if (one["area"], one["level"]) == ("spool", "problem")]
    assert full == [f"only 0 MiB are left for {spool}"]
    [copy] = kept.glob("*.spool")
    copy.rename(spool / copy.name)
    check_that_the_rest_is_told(place, 1_000, reason)


@pytest.mark.parametrize("option", ["--spool-bytes", "--spool-total-bytes"])
def test_spools_are_bounded(option: str, place: Place) -> None:
    finished = place.run(option, 20_000, *prints(1_000))
    [spool] = place.spools

    assert (finished.returncode, finished.stdout) == (0, output(1_000))
    assert "are lost (the spool is full): no daemon is listening" in sentence(finished)
    assert 19_000 < spool.stat().st_size <= 20_000
    if option == "--spool-total-bytes":
        finished = place.run(option, 20_000, *prints(10))
        assert sentence(finished).startswith("10 of 10 lines are lost (the spool is full): ")
        [other] = set(place.spools) - {spool}
        other.unlink()
    check_that_the_rest_is_told(place, 1_000, "the spool is full")


def test_full_disk_loses_nothing_with_a_live_daemon(place: Place) -> None:
    with place.serving() as daemon:
        finished = place.run(*prints(2_000), file_kib=16)
        assert (finished.returncode, finished.stdout) == (0, output(2_000))
        daemon.wait_until_ended(1)
        assert list(daemon.journal().values()) == [list(range(2_000))]


def test_agent_runs_without_spool_and_loss_is_reported(place: Place) -> None:
    (place.folder / "spool").touch()
    finished = place.run(*prints(100))

    assert (finished.returncode, finished.stdout) == (0, output(100))
    assert sentence(finished).startswith(
        "100 of 100 lines are lost (the spool cannot be written: File exists): no daemon"
    )


def test_no_spool_is_where_others_may_write(place: Place) -> None:
    folder = place.folder / "spool"
    folder.mkdir()
    folder.chmod(0o777)
    finished = place.run(*prints(100))

    assert (finished.returncode, finished.stdout) == (0, output(100))
    assert sentence(finished).startswith(
        f"100 of 100 lines are lost (spools cannot be in {folder}: other users may write to it (mode 0777)): no daemon"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("nth", [1, 3])
def test_stuck_disk_delays_neither_agent_nor_daemon(nth: int, place: Place) -> None:
    with (
        place.serving() as daemon,
        place.start(*ECHO, TOOLTAP_FAILPOINT=f"spool-write:{nth}:hang") as run,
    ):
        echo(run, range(200))
        until(lambda: list(daemon.journal().values()) == [list(range(200))])
        assert run.end()[:2] == (0, b"")


def test_stuck_disk_loss_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)  # the disk is waited for in vain
    finished = place.run(*prints(100), TOOLTAP_FAILPOINT="spool-write:2:hang")

    assert (finished.returncode, finished.stdout) == (0, output(100))
    assert sentence(finished).startswith(
        "100 of 100 lines are lost (neither the daemon nor the spool keeps up): no daemon"
    )


def test_daemon_with_full_disk_gets_all_lines_later(place: Place) -> None:
    place.variables |= WITHOUT_BYTECODE
    with place.serving() as daemon, place.start(*ECHO) as run:
        echo(run, range(50))
        until(lambda: list(daemon.journal().values()) == [list(range(50))])
        pid = daemon.process.process.pid
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
        echo(run, range(50, 100))
        until(lambda: daemon.ask("stats")["connections"]["publishing"] == 0)  # the daemon has rejected the lines
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        echo(run, range(100, 110))
        until(lambda: list(daemon.journal().values()) == [list(range(110))])
        assert run.end()[:2] == (0, b"")


def test_spool_stays_small_while_the_daemon_keeps_up(place: Place) -> None:
    with place.serving() as daemon, place.start(*ECHO) as run:
        for printed in range(0, 500, 100):
            echo(run, range(printed, printed + 100))
            until(lambda: list(daemon.journal().values()) == [list(range(printed + 100))])  # noqa: B023
        [spool] = place.spools
        more = count(500)

        def is_small() -> bool:
            """Whether it is after one more line, before which it is emptied if the publisher knows by then that the
            others are durable."""
            number = next(more)
            echo(run, range(number, number + 1))
            return spool.stat().st_size < 8_192 + 100 * 84

        until(is_small)


# -- power -----------------------------------------------------------------------------------------------------------

NEVER_MEANWHILE = {"stall": 30.0, "sync": 600.0}
"""Constants of a publisher that syncs only at its end."""


@pytest.mark.parametrize("ends", [False, True])
def test_waiting_lines_are_synced(ends: bool, place: Place) -> None:
    """While the agent runs, a moment after they were written; else when it ends."""
    program = f"import os, sys\nos.write(1, {output(10)!r})"  # at once: all are written before the moment has passed
    changes = {VARIABLE: json.dumps(NEVER_MEANWHILE)} if ends else {}
    program += "" if ends else "\nsys.stdin.read()"
    with place.start(*agent(program), TOOLTAP_FAILPOINT="spool-sync:1", **changes) as run:
        assert [run.line() for _ in range(10)] == [line(number) for number in range(10)]
        assert run.process.wait(60) == -9
    with place.serving() as daemon:
        daemon.wait_until_ended(1, "suspended" if not ends else "ended")
        assert list(daemon.journal().values()) == [list(range(10))]


def test_nothing_is_synced_while_a_daemon_takes_the_lines(place: Place) -> None:
    """Lines that it takes only after a moment are synced, as on a busy machine."""
    changes = {VARIABLE: json.dumps(NEVER_MEANWHILE)}
    with place.serving() as daemon, place.start(*ECHO, TOOLTAP_FAILPOINT="spool-sync:1", **changes) as run:
        echo(run, range(50))
        until(lambda: list(daemon.journal().values()) == [list(range(50))])
        assert run.end()[:2] == (0, b"")
