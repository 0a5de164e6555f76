"""Files are there whole or not at all, also when their writer is killed; and no code writes them in another way."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tooltap.traces.recording.whole_file import whole_file, write_whole

ROOT = Path(__file__).parents[3]
WRITER = """
import sys
from pathlib import Path
from tooltap.traces.recording.whole_file import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print(flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "one")
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    path.chmod(0o640)
    write_whole(path, b"two")

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o640)
    assert names(tmp_path) == ["page.html"]


def test_failed_writer_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", "no bytes"])  # type: ignore[list-item]

    assert path.read_text() == "old"
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize("old", ["old", None])
def test_killed_writer_leaves_the_old_file_or_none(old: str | None, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    if old is not None:
        path.write_text(old)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while_writing = names(tmp_path)
        process.send_signal(signal.SIGKILL)

    assert (path.read_text() if path.exists() else None) == old
    assert len(while_writing) == len(names(tmp_path)) == 1 + (old is not None)
    write_whole(path, "new")
    assert names(tmp_path) == ["page.html"]  # what the killed writer left is gone
    assert path.read_text() == "new"


def test_two_writers_do_not_remove_each_others_files(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with whole_file(path) as one, whole_file(path) as other:
        one.write(b"one")
        other.write(b"other")

    assert path.read_text() == "one"  # it ends last


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("page.html")
    write_whole(tmp_path / "link", "new")

    assert (tmp_path / "page.html").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_what_is_no_file_is_written_directly(tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        assert cat.stdin is not None
        assert cat.stdout is not None
        write_whole(Path(f"/dev/fd/{cat.stdin.fileno()}"), "text")
        cat.stdin.close()
        assert cat.stdout.read() == b"text"


def test_existing_file_may_stay(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for text in (b"one", b"two"):
        with whole_file(path, 0o600, replace=False) as file:
            file.write(text)

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("one", 0o600)
    assert names(tmp_path) == ["token"]


def test_longest_name_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), "new")

    assert names(tmp_path) == ["x" * 255]


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


# -- who writes files ------------------------------------------------------------------------------------------------

OTHERWISE = {
    "traces/recording/whole_file.py": "it is the one place that does it",
    "traces/recording/own_file.py": "it opens what others write",
    "traces/recording/writer.py": "a trace grows; a torn record at its end is closed by the next writer",
    "daemon/taps/delivery/spool.py": "a spool grows; each record has a checksum",
    "daemon/taps/delivery/announcement.py": "a note is renamed into place with its lock; a crash ends it",
    "daemon/journal/sqlite/file.py": "SQLite writes the journal and the files beside it; a note of fixed length",
    "daemon/journal/sqlite/backup.py": "SQLite writes the copy, which is linked into place when it is whole",
    "daemon/search/index.py": "SQLite writes the index, which can be made again",
    "daemon/search/search.py": "the lock beside the index is empty",
    "daemon/system/running_daemons.py": "a record is renamed into place with its lock; a crash ends it",
    "daemon/journal/nats/identity.py": "a note, renamed into place; a power failure may take it",
    "daemon/system/loop.py": "standard error, opened once more",
    "daemon/system/listener.py": "a lock holds the process id, for a message",
    "daemon/system/failpoints.py": "only tests set it",
    "daemon/taps/hooks/run.py": "the device for nothing, as the streams of a process that outlives the hook",
    "cli/common/printing.py": "the null device",
    "daemon/views/rewriter.py": "texts for one command, in a temporary folder",
    "daemon/export/source.py": "output bodies in a temporary folder",
    "daemon/export/parquet.py": "rows in a temporary folder",
    "cli/read/export.py": "what a pipe has, in a temporary folder",
    "cli/check/normalize.py": "output bodies grow with the lines, like the standard output beside them",
    "cli/manage/up.py": "a log grows; the null device",
    "daemon/show/markup.py": "a compiled template, renamed into place: it can be made again, and has a checksum",
    "cli/manage/demo.py": "a log in a temporary folder",
    "clients/python/subscribe_async.py": "written beside and renamed: an example uses nothing but the client",
    "daemon/taps/mcp/keeper.py": "files of the system's control groups",
    "daemon/taps/pipes.py": "the null device",
}
"""Modules that write files in another way, and why they may."""
WRITING = frozenset("wax+")
FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def _writes(tree: ast.AST) -> Iterator[int]:
    """The lines at which a file is opened for writing."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "write_text" and isinstance(node.func, ast.Name):
            continue  # the commands' function that prints, not the method of a path
        if called in ("write_text", "write_bytes", "touch", "mkstemp", "NamedTemporaryFile", "lock_own"):
            yield node.lineno
        elif called in ("open", "open_own", "open_special"):
            texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
            modes = [one for one in texts if isinstance(one, str) and len(one) <= 3 and one.strip("rwaxbt+") == ""]
            flags = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
            if any(WRITING & set(mode) for mode in modes) or FLAGS & flags:
                yield node.lineno


def test_the_search_finds_every_way() -> None:
    found = """
open(path, "w"); path.open("ab"); open(path, mode="r+b"); os.open(path, os.O_RDWR); path.write_text("")
open_own(path, os.O_RDWR | os.O_CREAT)
open(path); path.open("rb"); os.open(path, os.O_RDONLY); open(path, "r")
path.write_bytes(b"")
path.open("r+b" if offset else "wb")
write_text(text)
"""
    assert sorted(_writes(ast.parse(found))) == [2] * 5 + [3, 5, 6]


def test_only_the_helper_writes_files() -> None:
    shipped = [
        path
        for folder in ("cli", "daemon", "normalizers", "protocol", "traces", "clients/python", "docs", "src")
        for path in (ROOT / folder).rglob("*.py")
        if not any(part.is_symlink() for part in path.relative_to(ROOT).parents)
    ]
    found = {
        str(path.relative_to(ROOT)): lines
        for path in shipped
        if not str(path.relative_to(ROOT)).startswith("src/") and (lines := list(_writes(ast.parse(path.read_text()))))
    }

    assert {path: lines for path, lines in found.items() if path not in OTHERWISE} == {}
    assert OTHERWISE.keys() - found.keys() == set()  # no reason is left over
