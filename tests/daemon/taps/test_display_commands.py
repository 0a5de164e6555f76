"""Commands of display tools are limited, and no process of them survives."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from tooltap.daemon.taps.mcp.commands import Commands, Ran

pytestmark = [pytest.mark.anyio, pytest.mark.process]

LONG = 60.0


def is_running(pid: int) -> bool:
    """Say whether a process runs. A zombie, which nobody reaps where there is no init, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:  # it went while its file was open
        return False
    except FileNotFoundError:  # it went, or there is no `/proc`
        return not Path("/proc/self/stat").exists()
    return state.rpartition(")")[2].split()[0] != "Z"


async def wait_ended(pid: int) -> None:
    with anyio.fail_after(30):
        while is_running(pid):
            await anyio.sleep(0.01)


async def wait_pid(path: Path) -> int:
    with anyio.fail_after(30):
        while not (path.exists() and path.read_text().endswith("\n")):
            await anyio.sleep(0.01)
    return int(path.read_text())


async def test_output_is_interleaved_with_exit_code(tmp_path: Path) -> None:
    ran = await Commands(tmp_path, timeout=LONG, max_bytes=1_000).run("pwd; echo wrong >&2; exit 3")

    assert ran == (f"{tmp_path}\nwrong\n".encode(), 3, None)
    assert (await Commands(tmp_path, timeout=LONG, max_bytes=9).run("kill -TERM $$")).exit_code == 143


async def test_command_has_empty_stdin(tmp_path: Path) -> None:
    assert (await Commands(tmp_path, timeout=LONG, max_bytes=9).run("cat")) == (b"", 0, None)


async def test_timeout_kills_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up once there is a child, however long that takes."""
    scopes: list[anyio.CancelScope] = []
    limited = anyio.move_on_after

    def move_on_after(seconds: float) -> anyio.CancelScope:
        scopes.append(limited(seconds))
        return scopes[-1]

    async def run() -> None:
        ran.append(await Commands(tmp_path, timeout=LONG, max_bytes=100).run("sleep 60 & echo $! > pid; wait"))

    ran: list[Ran] = []
    monkeypatch.setattr(anyio, "move_on_after", move_on_after)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        child = await wait_pid(tmp_path / "pid")
        scopes[0].deadline = anyio.current_time()

    assert [(one.exit_code, one.stopped) for one in ran] == [(137, "time")]
    await wait_ended(child)


async def test_too_much_output_stops_command(tmp_path: Path) -> None:
    ran = await Commands(tmp_path, timeout=LONG, max_bytes=100_000).run("yes")

    assert (len(ran.output), ran.stopped) == (100_000, "bytes")


async def test_background_processes_are_killed(tmp_path: Path) -> None:
    ran = await Commands(tmp_path, timeout=LONG, max_bytes=100).run("sleep 60 & echo $!")

    assert (ran.exit_code, ran.stopped) == (0, None)
    await wait_ended(int(ran.output))


async def test_cancelled_command_is_killed(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Commands(tmp_path, timeout=LONG, max_bytes=100).run, "echo $$ > pid; sleep 60")
        pid = await wait_pid(tmp_path / "pid")
        tasks.cancel_scope.cancel()

    assert not is_running(pid)


async def test_signals_are_as_usual(tmp_path: Path) -> None:
    """Python ignores some, which a program would inherit."""
    ran = await Commands(tmp_path, timeout=LONG, max_bytes=100).run("yes | head -1; grep SigIgn /proc/self/status")

    said, _, ignored = ran.output.split()
    assert said == b"y"
    assert not [one for one in (signal.SIGPIPE, signal.SIGXFSZ) if int(ignored, 16) >> (one - 1) & 1]


async def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await Commands(tmp_path / "gone", timeout=LONG, max_bytes=100).run("true")
