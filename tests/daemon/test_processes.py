"""The daemon as a process: signals, a second daemon, and what a killed one leaves behind."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.daemon.constants import VARIABLE
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT
from tests.daemon.taps.test_follow_machines import PRIVATE, require_machines

LINE = json.dumps({"t": 1_700_000_000_000, "dir": "out", "line": "not JSON"}).encode() + b"\n"
INGEST = b'{"op":"ingest","stream":"s","framing":"tapped","dialect":"claude-stream"}\n'
PATIENT = {VARIABLE: json.dumps({"shutdown_timeout": TIMEOUT})}
"""For a daemon that is to end cleanly on a busy machine, too."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_ends_the_daemon_cleanly(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Lines are committed and acknowledged, publishers and subscribers have all frames, the socket is removed."""
    with (
        DaemonProcess(tmp_path, **PATIENT) as daemon,
        daemon.wait_ready().connect() as publisher,
        daemon.connect() as reader,
    ):
        reader.send("subscribe", after="start")
        reader.until("live")
        publisher.write(INGEST + LINE * 3)
        publisher.until("ingesting")
        reader.read()
        daemon.process.send_signal(number)

        assert publisher.rest()[-1] == {"op": "suspended", "lines": 3}
        assert [one["line"] for one in reader.rest()] == [2, 3]
        assert daemon.wait() == code
        assert daemon.sentence == ""
        assert not daemon.path.exists()

    with DaemonProcess(tmp_path) as daemon, daemon.wait_ready().connect() as reader:
        assert reader.ask("stats")["streams"] == {"open": 0, "suspended": 1, "ended": 0}


def test_signal_during_a_slow_read_loses_nothing(tmp_path: Path) -> None:
    """A subscriber that reads only then still gets everything, and the daemon ends without an error."""
    with (
        DaemonProcess(tmp_path, **PATIENT) as daemon,
        daemon.wait_ready().connect() as publisher,
        daemon.connect() as reader,
    ):
        reader.send("subscribe", after="start")
        reader.until("live")
        publisher.write(INGEST + LINE * 3_000)
        publisher.finish()
        publisher.until("suspended")
        with daemon.connect() as asking:
            assert asking.ask("stats")["subscribers"][0]["behind"]
        daemon.process.send_signal(signal.SIGTERM)
        while daemon.next_log()["event"] != "shutting down":
            pass

        assert [one["line"] for one in reader.rest()][:2] == [1, 2]
        assert daemon.wait() == 0
        assert daemon.sentence == ""


def test_second_daemon_on_a_socket_ends(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as first, first.wait_ready().connect() as wire:
        with DaemonProcess(tmp_path) as second:
            assert second.wait() == 1
            assert second.sentence == (
                f"tooltap: a daemon (pid {first.process.pid}) is already listening at {first.path}\n"
            )
        with first.connect() as later:
            assert [wire.ask("ping"), later.ask("ping")] == [{}, {}]


def test_second_daemon_on_a_journal_ends(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with (
        DaemonProcess(tmp_path, journal=journal).wait_ready() as first,
        DaemonProcess(tmp_path / "b", journal=journal) as second,
    ):
        assert second.wait() == 1
        assert str(first.process.pid) in second.sentence
        assert str(journal) in second.sentence
        assert not second.path.exists()


def test_second_daemon_on_another_name_of_a_journal_ends(tmp_path: Path) -> None:
    journal, other = tmp_path / "journal.db", tmp_path / "other.db"
    with DaemonProcess(tmp_path, journal=journal).wait_ready() as first:
        other.hardlink_to(journal)
        with DaemonProcess(tmp_path / "b", journal=other) as second:
            assert second.wait() == 1
            assert f"{other} is used by another daemon (pid {first.process.pid})" in second.sentence
            assert f"under its other name {journal}" in second.sentence


def test_second_daemon_on_a_link_to_a_journal_ends(tmp_path: Path) -> None:
    journal, other = tmp_path / "journal.db", tmp_path / "other.db"
    with DaemonProcess(tmp_path, journal=journal).wait_ready() as first:
        other.symlink_to(journal)
        with DaemonProcess(tmp_path / "b", journal=other) as second:
            assert second.wait() == 1
            assert f"is used by another daemon (pid {first.process.pid})" in second.sentence


@pytest.mark.parametrize("kind", ["link to the folder", "bound folder", "link to the file", "other name of the file"])
def test_next_daemon_opens_the_journal_under_another_name(tmp_path: Path, kind: str) -> None:
    """A name that leads to the same lock, as one in other letters does on a Mac, and one that leads to another lock."""
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    journal, within = other / "journal.db", ()
    with DaemonProcess(tmp_path, journal=folder / "journal.db", **PATIENT).wait_ready() as first:
        with first.connect() as publisher:
            publisher.write(INGEST + LINE)
            publisher.until("ack")
        first.process.terminate()
        assert first.wait() == 0
    if kind == "link to the folder":
        other.symlink_to(folder)
    else:
        other.mkdir()
    if kind == "bound folder":
        require_machines()
        within = (*PRIVATE, "sh", "-c", BIND, str(folder), str(other))
    elif kind == "link to the file":
        journal.symlink_to(folder / "journal.db")
    elif kind == "other name of the file":
        journal.hardlink_to(folder / "journal.db")
    with (
        DaemonProcess(tmp_path / "b", journal=journal, within=within).wait_ready() as second,
        second.connect() as publisher,
    ):
        publisher.write(INGEST)
        assert publisher.until("ingesting")[-1]["lines"] == 1


BIND = 'mount --bind "$0" "$1"; shift; exec "$@"'


def test_second_daemon_on_a_journal_in_a_bound_folder_ends(tmp_path: Path) -> None:
    """The folder is bound to another place in a namespace of mounts that ends with the second daemon."""
    require_machines()
    folder, bound = tmp_path / "folder", tmp_path / "bound"
    folder.mkdir()
    bound.mkdir()
    bind = (*PRIVATE, "sh", "-c", BIND)
    with (
        DaemonProcess(tmp_path, journal=folder / "journal.db").wait_ready() as first,
        DaemonProcess(tmp_path / "b", journal=bound / "journal.db", within=[*bind, str(folder), str(bound)]) as second,
    ):
        assert second.wait() == 1
        assert f"is used by another daemon (pid {first.process.pid})" in second.sentence


@pytest.mark.parametrize("what", ["socket", "journal"])
def test_folder_in_which_others_may_replace_files_needs_the_sticky_bit(tmp_path: Path, what: str) -> None:
    folder = tmp_path / {"socket": "run", "journal": "stored"}[what]
    folder.mkdir()
    folder.chmod(0o777)
    with DaemonProcess(tmp_path, journal=tmp_path / "stored" / "journal.db") as daemon:
        assert daemon.wait() == 1
        assert daemon.sentence == (
            f"tooltap: the {what} cannot be in {folder}: other users may write to it (mode 0777);"
            f" run chmod go-w {folder}, or choose another place for the {what}\n"
        )
    assert list(folder.iterdir()) == []
    folder.chmod(0o1777)
    with DaemonProcess(tmp_path, journal=tmp_path / "stored" / "journal.db") as daemon:
        assert daemon.wait_ready().log[-1]["event"] == "listening"


def test_streams_resume_after_a_kill(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as killed, killed.wait_ready().connect() as publisher:
        publisher.write(INGEST + LINE)
        publisher.until("ack")
        killed.process.kill()
        assert killed.wait() == -signal.SIGKILL
        assert killed.path.exists()

    with DaemonProcess(tmp_path) as daemon, daemon.wait_ready().connect() as publisher:
        publisher.write(INGEST + LINE + b'{"op":"end"}\n')
        assert publisher.until("done")[-1]["lines"] == 2


def test_log_is_json_lines_without_a_terminal(tmp_path: Path) -> None:
    config = tmp_path / "tooltap.toml"
    config.write_text("stall_seconds = 600\n")  # else the log of a busy machine says that the event loop was held
    with DaemonProcess(tmp_path, "--config", config, **PATIENT) as daemon:
        daemon.wait_ready()
        daemon.process.terminate()
        daemon.wait()

    assert [entry["event"] for entry in daemon.log] == ["listening", "shutting down", "stopped"]
    assert daemon.log[0]["socket"] == str(daemon.path)
    assert daemon.log[0]["pid"] == daemon.process.pid


def test_environment_switches_traces_on(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with (
        DaemonProcess(
            tmp_path, HAPPIER_STACK_TOOL_TRACE="1", HAPPIER_STACK_TOOL_TRACE_FILE=str(trace), **PATIENT
        ) as daemon,
        daemon.wait_ready().connect() as publisher,
    ):
        publisher.write(INGEST + LINE * 2 + b'{"op":"end"}\n')
        publisher.until("done")
        daemon.process.terminate()
        assert daemon.wait() == 0

    records = [json.loads(line) for line in trace.read_bytes().splitlines()]
    assert [(one["stream"], one["n"], one.get("line"), one.get("op")) for one in records] == [
        ("s", 1, "not JSON", None),
        ("s", 2, "not JSON", None),
        ("s", 2, None, "close"),
    ]
