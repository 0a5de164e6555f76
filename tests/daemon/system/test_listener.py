"""The socket's path: permissions, the lock, and the files of a killed daemon."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire
from tooltap.daemon.system.listener import MAX_PATH, Listener, ListenError, peer_uid
from tooltap.daemon.system.paths import socket_path


def can_connect(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def test_missing_directory_is_created_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "t.sock"
    with Listener(path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert can_connect(path)


def test_closing_removes_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with Listener(path):
        pass

    assert not path.exists()
    with Listener(path):
        assert can_connect(path)


@pytest.mark.parametrize("remove_lock", [False, True])
def test_removed_socket_is_made_again(remove_lock: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with Listener(path) as listener:
        assert listener.renew() is None
        path.unlink()
        if remove_lock:
            path.with_name("t.sock.lock").unlink()
        previous = listener.renew()
        assert previous is not None
        previous.close()

        assert can_connect(path)
        with pytest.raises(ListenError, match="is already listening"):
            Listener(path)
    assert not path.exists()


def test_what_replaces_a_removed_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with Listener(path) as listener:
        path.unlink()
        path.write_text("mine")
        with pytest.raises(ListenError, match=f"{path} is not a socket; move it away"):
            listener.renew()
        assert path.read_text() == "mine"
        path.unlink()
        path.with_name("t.sock.lock").unlink()
        with Listener(path), pytest.raises(ListenError, match=rf"a daemon \(pid {os.getpid()}\) is already listening"):
            listener.renew()


def test_daemon_whose_socket_is_removed_is_reached_again(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        with daemon.connect() as before:
            daemon.path.unlink()
            _entry(daemon, "the socket was removed, and is there again")
            with daemon.connect() as after:
                assert after.ask("ping") == before.ask("ping") == {}
        daemon.process.terminate()
        assert daemon.wait() == 0
    assert not daemon.path.exists()


def test_second_listener_learns_the_first(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with Listener(path):
        with pytest.raises(ListenError, match=rf"a daemon \(pid {os.getpid()}\) is already listening at {path}"):
            Listener(path)
        assert can_connect(path)


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert not can_connect(path)

    with Listener(path):
        assert can_connect(path)


@pytest.mark.parametrize("kind", ["file", "link", "folder", "fifo"])
def test_what_is_no_socket_is_not_replaced(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    make: dict[str, Callable[[], object]] = {
        "file": lambda: path.write_text("notes"),
        "link": lambda: path.symlink_to("elsewhere"),
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
    }
    make[kind]()
    before = path.lstat()

    with pytest.raises(ListenError, match=f"^{path} is not a socket; move it away or choose another place"):
        Listener(path)
    assert os.path.samestat(path.lstat(), before)
    assert kind != "file" or path.read_text() == "notes"


def test_socket_of_another_program_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ListenError, match=f"^another program is listening at {path}; choose another place"):
            Listener(path)
        assert can_connect(path)


def test_file_in_place_of_the_lock_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "t.sock.lock").write_text("notes")

    with pytest.raises(
        ListenError,
        match=f"^{tmp_path}/t.sock.lock cannot be the socket's lock: it is not a daemon's lock; move it away",
    ):
        Listener(tmp_path / "t.sock")
    assert (tmp_path / "t.sock.lock").read_text() == "notes"


def test_file_with_the_temporary_name_is_not_removed(tmp_path: Path) -> None:
    taken = tmp_path / f"t.sock.{os.getpid()}"
    taken.write_text("notes")

    with pytest.raises(ListenError, match="Address already in use"):
        Listener(tmp_path / "t.sock")
    assert taken.read_text() == "notes"


def test_closing_leaves_what_replaced_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with Listener(path):
        path.unlink()
        path.write_text("notes")

    assert path.read_text() == "notes"


def test_directory_in_which_others_may_exchange_files_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o702)

    with pytest.raises(ListenError, match=rf"cannot be in {directory}: other users may write to it \(mode 0702\); run"):
        Listener(directory / "t.sock")
    assert list(directory.iterdir()) == []


def test_sticky_directory_is_served(tmp_path: Path) -> None:
    """As `/tmp`: others may create files there, and exchange none of ours."""
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)

    with Listener(directory / "t.sock") as listener:
        assert listener.path.stat().st_mode & 0o777 == 0o600


def test_socket_is_private_in_a_readable_directory(tmp_path: Path) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    directory.chmod(0o755)

    with Listener(directory / "t.sock") as listener:
        assert listener.path.stat().st_mode & 0o777 == 0o600


def test_created_directory_is_private(tmp_path: Path) -> None:
    with Listener(tmp_path / "new" / "t.sock"):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_file_in_place_of_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ListenError, match="cannot use the directory"):
        Listener(tmp_path / "file" / "t.sock")


def test_too_long_path_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("x" * MAX_PATH)
    for _ in range(2):
        with pytest.raises(ListenError, match=f"the path of a socket may have {MAX_PATH} bytes, this one has"):
            Listener(path)


def test_peer_uid() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


def test_peer_uid_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """`getsockopt(SOL_LOCAL, LOCAL_PEERCRED)` fills a `struct xucred`: version, user, number of groups, groups."""

    class Connection(socket.socket):
        def getsockopt(self, *option: int) -> Any:
            assert option[:2] == (0, 1)
            return struct.pack("=2Ih2x16I", 0, 501, 1, 20, *[0] * 15)

    monkeypatch.setattr(sys, "platform", "darwin")
    with Connection(socket.AF_UNIX) as connection:
        assert peer_uid(connection) == 501


def test_environment_names_the_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOLTAP_SOCKET", "/somewhere/t.sock")
    assert socket_path() == Path("/somewhere/t.sock")

    monkeypatch.delenv("TOOLTAP_SOCKET")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert socket_path().name == "tooltap.sock"


CLIENTS = 20
"""More than there are files that the daemon may have open for a moment."""


def test_too_many_open_files_stop_nobody_for_long(tmp_path: Path) -> None:
    """Clients wait, the log has one sentence, and everybody is served later."""
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        pid = daemon.process.pid
        with daemon.connect() as first:  # what the first connection loads is loaded
            first.ask("ping")
            usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            most = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, usual[1]))
            with ExitStack() as stack:
                clients = [stack.enter_context(Wire(daemon.path)) for _ in range(CLIENTS)]
                refused = _entry(daemon, "no connection can be accepted; clients wait")
                assert first.ask("ping") == {}
                resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
                assert [one.read()["op"] for one in clients] == ["welcome"] * CLIENTS
                _entry(daemon, "connections are accepted again")
        daemon.process.terminate()
        assert daemon.wait() == 0

    assert refused["reason"] == "Too many open files"
    assert daemon.log.count(refused) == 1


def _entry(daemon: DaemonProcess, event: str) -> dict[str, Any]:
    while (entry := daemon.next_log())["event"] != event:
        pass
    return entry


def test_a_lock_that_fails_is_no_other_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ListenError, match=r"^cannot lock .*t\.sock\.lock: No locks available$"):
        Listener(tmp_path / "t.sock")


def test_a_socket_that_cannot_be_removed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.sock"
    listener = Listener(path)
    with monkeypatch.context() as patch, capture_logs() as log:
        patch.setattr(Path, "unlink", _refuse)
        listener.close()
    with Listener(path):
        assert can_connect(path)

    assert [(one["event"], one["reason"]) for one in log] == [("the socket cannot be removed", "Permission denied")]


def _refuse(path: Path, missing_ok: bool = False) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
