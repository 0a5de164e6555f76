"""The daemon as a service of a real systemd: it follows session files of its user, and can write to nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.other_user import BECOME, NOBODY, PYTHON_FOR_ALL, needs_another_user
from tooltap.daemon.taps.mcp import keeper

SYSTEMD = "/usr/lib/systemd/systemd"
SESSION = Path(__file__).parents[1] / "fixtures/claude-transcript/claude-code-2.1.330/mcp.jsonl"
PATIENCE = 100.0
RUNTIME = Path(f"/run/user/{NOBODY.pw_uid}")
BOOT = f"""
set -eu
echo $$ > "$GROUP/cgroup.procs"
for place in /run /srv; do mount -t tmpfs -o mode=755 tmpfs $place; done
mkdir -p /run/systemd/system /run/systemd/unit-root /run/user
install -d -m 700 -o {NOBODY.pw_uid} -g {NOBODY.pw_gid} {RUNTIME} /srv/me
{PYTHON_FOR_ALL}
exec {" ".join(BECOME)} -- \\
    env -i HOME=/srv/me XDG_RUNTIME_DIR={RUNTIME} PATH="$PATH" sh -euc '
        mkdir -p ~/.claude/projects/p ~/notes
        cp "$0" ~/.claude/projects/p/5a0c1f4e-0000-4000-8000-000000000000.jsonl
        "$1" -m tooltap.cli service install --bare -- --follow claude --backfill all
        exec "$2" --user --unit=tooltap.service
    ' "$@"
"""
"""What a boot and a login do, as far as systemd's user manager relies on it."""


@contextmanager
def logged_in() -> Iterator[int]:
    """The process id of a systemd that runs the service, with a `/run` and a home folder of its own."""
    group = keeper.make_group()
    for path in (group, *(str(one) for one in Path(group).iterdir())):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    command = ["unshare", "--mount", "sh", "-c", BOOT, "sh", str(SESSION), sys.executable, SYSTEMD]
    environment = {**os.environ, "GROUP": group}
    try:
        with subprocess.Popen(command, env=environment, cwd="/", stderr=subprocess.DEVNULL) as systemd:
            try:
                yield systemd.pid
            finally:
                systemd.send_signal(signal.SIGKILL)
    finally:
        keeper.remove_group(group)


def entered(pid: int, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a command as `nobody`, where files look as they do for a process."""
    environment = {"HOME": "/srv/me", "XDG_RUNTIME_DIR": str(RUNTIME), "PATH": os.environ["PATH"]}
    arguments = ["nsenter", f"--target={pid}", "--mount", "--", *BECOME, "--", *map(str, command)]
    return subprocess.run(arguments, env=environment, cwd="/", capture_output=True, text=True, check=False)


def wait_until(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.05)


@needs_another_user
@pytest.mark.programs("nsenter")
@pytest.mark.skipif(not os.path.exists(SYSTEMD), reason="systemd is not installed")
def test_service_follows_and_can_write_to_nothing_else() -> None:
    with logged_in() as systemd:
        root = Path(f"/proc/{systemd}/root")
        wait_until((root / RUNTIME.relative_to("/") / "tooltap.sock").exists)
        tooltap = [sys.executable, "-m", "tooltap.cli"]
        wait_until(lambda: "claude" in entered(systemd, *tooltap, "sessions", "--json").stdout)
        daemon = json.loads(entered(systemd, *tooltap, "stats", "--json").stdout)["pid"]

        status = Path(f"/proc/{daemon}/status").read_text().split("\n")
        assert {"NoNewPrivs:\t1", "Seccomp:\t2", f"CapBnd:\t{0:016x}"} <= set(status)
        for folder in ("/srv/me", "/srv/me/notes", "/srv/me/.claude/projects/p", "/srv/me/.config", "/srv"):
            finished = entered(daemon, "touch", f"{folder}/new")
            assert finished.returncode == 1, folder
            assert "Read-only file system" in finished.stderr
        assert entered(daemon, "touch", "/srv/me/.local/share/tooltap/new").returncode == 0
        assert (root / "srv/me/.local/share/tooltap/journal.db").exists()
