"""The token's file: private, created once, and checked."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tooltap.daemon.system.listener import ListenError
from tooltap.daemon.web.http.token import is_token, load_token


def test_token_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / "web-token"
    before = os.umask(0)
    try:
        token = load_token(path)
    finally:
        os.umask(before)

    assert len(token) >= 43  # 256 bits
    assert load_token(path) == token
    assert load_token(tmp_path / "other") != token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["web-token"]


def test_concurrent_creation_agrees(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(load_token, [tmp_path / "token"] * 8))

    assert len(set(tokens)) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604])
def test_readable_token_file_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    load_token(path)
    path.chmod(mode)

    with pytest.raises(ListenError, match=r"other users can read the token in .*; remove the file to get"):
        load_token(path)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 200, b"a" * 40 + b"\n" + b"b" * 9, b"\xff" * 40, b"a;" * 20])
def test_invalid_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(ListenError, match=r"there is no token in .*; remove the file"):
        load_token(path)


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ListenError, match=r"^cannot write to .*/file: .*/file is not a folder; make it writable, or "):
        load_token(tmp_path / "file" / "token")
    with pytest.raises(ListenError, match="cannot be used: it is not a file"):
        load_token(tmp_path)


def test_is_token() -> None:
    assert is_token("a" * 43, "a" * 43)
    for given in ("", "a" * 42, "a" * 44, "ä" * 43, "\udcff"):
        assert not is_token(given, "a" * 43)
