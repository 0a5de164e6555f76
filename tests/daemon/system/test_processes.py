"""What starting processes depends on: the cores there are for them, and the environment they get."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tooltap.daemon.system.processes import usable_cores


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bind processes to cores")
def test_default_is_the_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 8}, raising=False)
    assert usable_cores() == 3


ALLOCATING = """
import ctypes, sys, threading
from tooltap.daemon.system.processes import share_arenas
if sys.argv[1] == "shared":
    share_arenas()
all_run = threading.Barrier(8)
def allocate():
    kept = bytes(10_000)
    all_run.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.fopen(sys.argv[2].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="only glibc has arenas")
def test_threads_share_an_arena(tmp_path: Path) -> None:
    arenas = {}
    for how in ("own", "shared"):
        path = tmp_path / how
        subprocess.run([sys.executable, "-c", ALLOCATING, how, path], check=True)
        arenas[how] = path.read_text().count("<heap nr=")

    assert arenas["own"] > arenas["shared"] == 1


def test_processes_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """It may be an agent's workspace, and holds what would be imported in place of the library."""
    workspace, script = tmp_path / "workspace", tmp_path / "script.py"
    workspace.mkdir()
    (workspace / "anyio.py").write_text("open('imported', 'w').close()")
    script.write_text(
        "import os, anyio, anyio.to_process\n"
        "from tooltap.daemon.system.processes import import_nothing_from_here, users_environment\n"
        "before = dict(os.environ)\n"
        "import_nothing_from_here()\n"
        "assert users_environment() == before\n"
        "if __name__ == '__main__':\n"
        "    print(anyio.run(anyio.to_process.run_sync, os.getppid) == os.getpid())\n"
    )

    done = subprocess.run([sys.executable, script], cwd=workspace, capture_output=True, text=True, timeout=60)

    # Standard error may have asyncio's warning that the worker, killed at the end, was reaped before it looked.
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert not (workspace / "imported").exists()
