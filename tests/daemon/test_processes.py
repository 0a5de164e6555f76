"""The daemon as a process: signals, a second one, and what is left by one that was killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.daemon.processes import DaemonProcess

LINE = json.dumps({"t": 1_700_000_000_000, "dir": "out", "line": "not JSON"}).encode() + b"\n"
INGEST = b'{"op":"ingest","stream":"s","framing":"tapped","dialect":"claude-stream"}\n'


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """What was read is committed and acknowledged, publishers are told, subscribers have all, the socket is gone."""
    with DaemonProcess(tmp_path) as daemon, daemon.wait_ready().connect() as publisher, daemon.connect() as reader:
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


def test_a_signal_ends_it_cleanly_while_much_is_still_to_be_taken(tmp_path: Path) -> None:
    """A subscriber that takes what it was sent only then gets all of that, and the daemon ends without an error."""
    with DaemonProcess(tmp_path) as daemon, daemon.wait_ready().connect() as publisher, daemon.connect() as reader:
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


def test_a_second_daemon_says_so_and_ends(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as first, first.wait_ready().connect() as wire:
        with DaemonProcess(tmp_path) as second:
            assert second.wait() == 1
            assert second.sentence == (
                f"tooltap: a daemon (pid {first.process.pid}) is already listening at {first.path}\n"
            )
        with first.connect() as later:
            assert [wire.ask("ping"), later.ask("ping")] == [{}, {}]


def test_a_second_daemon_on_the_same_journal_says_so_and_ends(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with (
        DaemonProcess(tmp_path, journal=journal).wait_ready() as first,
        DaemonProcess(tmp_path / "b", journal=journal) as second,
    ):
        assert second.wait() == 1
        assert str(first.process.pid) in second.sentence
        assert str(journal) in second.sentence
        assert not second.path.exists()


def test_a_killed_daemons_socket_is_replaced_and_its_streams_go_on(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as killed, killed.wait_ready().connect() as publisher:
        publisher.write(INGEST + LINE)
        publisher.until("ack")
        killed.process.kill()
        assert killed.wait() == -signal.SIGKILL
        assert killed.path.exists()

    with DaemonProcess(tmp_path) as daemon, daemon.wait_ready().connect() as publisher:
        publisher.write(INGEST + LINE + b'{"op":"end"}\n')
        assert publisher.until("done")[-1]["lines"] == 2


def test_the_log_is_one_json_object_a_line_where_there_is_no_terminal(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        daemon.process.terminate()
        daemon.wait()

    assert [entry["event"] for entry in daemon.log] == ["listening", "shutting down", "stopped"]
    assert daemon.log[0]["socket"] == str(daemon.path)
    assert daemon.log[0]["pid"] == daemon.process.pid


def test_lines_are_traced_where_the_environment_asks_for_it(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with (
        DaemonProcess(tmp_path, HAPPIER_STACK_TOOL_TRACE="1", HAPPIER_STACK_TOOL_TRACE_FILE=str(trace)) as daemon,
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
