"""Announcements of taps: locked notes, which the death of their process makes void."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tooltap.daemon.taps.delivery.announcement import Announced, announce, announced, withdraw

NOTE = Announced("run-1", "claude", 1_795_000_000_000, "/run/t.sock")


def test_announced_until_withdrawn(tmp_path: Path) -> None:
    folder = str(tmp_path / "spool")
    note = announce(folder, NOTE)
    others = [announced(folder, "/run/t.sock"), announced(folder, "/run/other.sock")]
    assert note is not None
    withdraw(note)

    assert others == [[NOTE], []]
    assert announced(folder, "/run/t.sock") == []
    assert os.listdir(folder) == []


def test_without_a_named_socket_it_is_for_any_daemon(tmp_path: Path) -> None:
    note = announce(str(tmp_path), NOTE._replace(socket=""))
    assert [one.stream for one in announced(str(tmp_path), "/run/t.sock")] == ["run-1"]
    assert note is not None
    withdraw(note)


def test_note_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal; from tooltap.daemon.taps.delivery.announcement import Announced, announce\n"
        f"announce({str(tmp_path)!r}, Announced('run-1', '', 1, ''))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    left = os.listdir(tmp_path)

    assert left == ["run-1.tap"]
    assert announced(str(tmp_path), "/run/t.sock") == []
    assert os.listdir(tmp_path) == []


def test_folder_that_cannot_be_written_and_foreign_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "notes.tap").write_bytes(b"\xff something else")
    (tmp_path / "file").touch()

    assert announce(str(tmp_path / "file" / "spool"), NOTE) is None
    assert announced(str(tmp_path), "/run/t.sock") == []
    assert announced(str(tmp_path / "nowhere"), "/run/t.sock") == []
