"""Which files display tools show, and what of them."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from tooltap.daemon.taps.mcp.files import Body, NotShownError, Roots, folder_of_uri, read_image, read_text

OUTSIDE = "is outside of the folders the user allowed"


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "a.txt").write_text("inside\n")
    (tmp_path / "secret.txt").write_text("outside\n")
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "allowed-not" / "b.txt").write_text("outside\n")
    return folder


def read(allowed: Path, path: str, *narrowed_to: Path) -> bytes:
    with closing(Roots([allowed])) as roots, roots.open(path, narrowed_to or None) as (file, _):
        return file.read()


def reason(allowed: Path, path: str, *narrowed_to: Path) -> tuple[str, bool]:
    with pytest.raises(NotShownError) as caught:
        read(allowed, path, *narrowed_to)
    return str(caught.value), caught.value.denied


def test_file_in_allowed_folder_is_opened(allowed: Path) -> None:
    (allowed / "sub").mkdir()
    (allowed / "sub" / "link").symlink_to(allowed / "a.txt")

    for path in ("a.txt", "./sub/../a.txt", "sub/link", str(allowed / "a.txt")):
        assert read(allowed, path) == b"inside\n"


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "sub/../../secret.txt", "{outside}/secret.txt", "/etc/passwd", "../allowed-not/b.txt", ".."],
)
def test_path_outside_is_denied(allowed: Path, path: str) -> None:
    path = path.format(outside=allowed.parent)

    assert reason(allowed, path) == (OUTSIDE, True)


def test_link_to_outside_is_denied(allowed: Path) -> None:
    (allowed / "file").symlink_to(allowed.parent / "secret.txt")
    (allowed / "folder").symlink_to(allowed.parent)
    (allowed / "twice").symlink_to(allowed / "file")

    for path in ("file", "folder/secret.txt", "twice"):
        assert reason(allowed, path) == (OUTSIDE, True)


def test_allowed_folder_may_be_a_link(allowed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(allowed)

    assert read(tmp_path / "link", "a.txt") == b"inside\n"


def test_relative_paths_start_in_first_folder(allowed: Path) -> None:
    other = allowed.parent / "allowed-not"
    with closing(Roots([allowed, other])) as roots:
        with roots.open("../allowed-not/b.txt") as (file, path):
            assert (file.read(), path) == (b"outside\n", str(other / "b.txt"))
        with roots.open("./a.txt") as (_, path):
            assert path == "a.txt"


def test_client_roots_only_narrow(allowed: Path) -> None:
    (allowed / "sub").mkdir()
    (allowed / "sub" / "c.txt").write_text("deeper\n")

    assert read(allowed, "sub/c.txt", allowed / "sub") == b"deeper\n"
    assert reason(allowed, "a.txt", allowed / "sub") == ("is outside of the folders this client works in", True)
    assert reason(allowed, "../secret.txt", allowed.parent) == (OUTSIDE, True)
    with closing(Roots([allowed])) as roots, pytest.raises(NotShownError), roots.open("a.txt", []):
        pass


def test_special_files_do_not_block(allowed: Path) -> None:
    os.mkfifo(allowed / "pipe")

    assert reason(allowed, "pipe") == ("is not a file", False)
    assert reason(allowed, ".") == ("is not a file", False)
    assert reason(allowed, "missing") == ("cannot be opened: No such file or directory", False)
    assert reason(allowed, "nul\0") == ("cannot be opened: not a path", False)


def test_client_root_is_a_file_uri() -> None:
    assert folder_of_uri("file:///home/me/my%20project") == Path("/home/me/my project")
    assert folder_of_uri("https://example.com/x") is None


# -- what is read -------------------------------------------------------------------------------------------------


def text(
    allowed: Path, data: bytes, first: int = 1, last: int | None = None, limit: int = 100, name: str = "f"
) -> Body:
    (allowed / name).write_bytes(data)
    with closing(Roots([allowed])) as roots, roots.open(name) as (file, _):
        return read_text(file, name, first, last, 100)


def test_line_range_is_inclusive(allowed: Path) -> None:
    data = b"one\ntwo\nthree\nfour"

    assert text(allowed, data).data == data
    assert text(allowed, data, 2, 3).data == b"two\nthree\n"
    assert text(allowed, data, 4).data == b"four"
    assert text(allowed, data, 1, 99).data == data
    with pytest.raises(NotShownError, match=r"^has no line 2 after line 3"):
        text(allowed, data, 3, 2)
    with pytest.raises(NotShownError, match=r"^has no line 5"):
        text(allowed, data, 5)


def test_few_lines_of_long_file(allowed: Path) -> None:
    data = b"x" * 200_000 + b"\n" + b"short\n" * 3

    assert text(allowed, data, 2, 3).data == b"short\nshort\n"
    with pytest.raises(NotShownError, match=r"^has more than 100 bytes to show; ask for fewer lines"):
        text(allowed, data, 1, 1)


def test_invalid_utf8_is_replaced_and_binary_refused(allowed: Path) -> None:
    assert text(allowed, b"caf\xe9\n").data == "caf\ufffd\n".encode()
    with pytest.raises(NotShownError, match=r"^is not a text file"):
        text(allowed, b"\x7fELF\0\0")


@pytest.mark.parametrize(
    ("name", "mime_type", "language"),
    [
        ("a.py", "text/x-python", "python"),
        ("a.ts", "application/x-typescript", "typescript"),
        ("package.json", "application/json", "json"),
        ("Dockerfile", "text/x-dockerfile-config", "docker"),
        ("unheard.of", "text/plain", None),
    ],
)
def test_mime_type_follows_file_name(allowed: Path, name: str, mime_type: str, language: str | None) -> None:
    body = text(allowed, b"x\n", name=name)

    assert (body.mime_type, body.language) == (mime_type, language)


@pytest.mark.parametrize(
    ("name", "mime_type"), [("a.PNG", "image/png"), ("b.c.jpeg", "image/jpeg"), ("d.webp", "image/webp")]
)
def test_image_type_follows_file_name(allowed: Path, name: str, mime_type: str) -> None:
    (allowed / name).write_bytes(b"\x89\0\xff")
    with closing(Roots([allowed])) as roots, roots.open(name) as (file, _):
        assert read_image(file, name, 100) == Body(b"\x89\0\xff", mime_type)


def test_other_or_too_long_image_is_refused(allowed: Path) -> None:
    for name, limit, why in (("a.txt", 100, r"^is not an image"), ("a.png", 2, r"^is longer than 2 bytes")):
        (allowed / name).write_bytes(b"abc")
        with closing(Roots([allowed])) as roots, roots.open(name) as (file, _), pytest.raises(NotShownError, match=why):
            read_image(file, name, limit)
