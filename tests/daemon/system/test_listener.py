"""The socket's path: permissions, the lock, and the files of a killed daemon."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_writable_directory_is_refused(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(mode)

    with pytest.raises(ListenError, match=rf"other users may write to .* \(mode {mode:04o}\); run chmod 700"):
        Listener(directory / "t.sock")
    assert list(directory.iterdir()) == []


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


def test_environment_names_the_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOLTAP_SOCKET", "/somewhere/t.sock")
    assert socket_path() == Path("/somewhere/t.sock")

    monkeypatch.delenv("TOOLTAP_SOCKET")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert socket_path().name == "tooltap.sock"
