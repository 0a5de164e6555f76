"""A real sshd at a port of its own, and the `ssh` of a user who knows it."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.daemon.nats_server import reserved
from tests.daemon.running import TIMEOUT
from tests.programs import found, require

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the children of a process are looked up in /proc")
PROGRAMS = ("sshd", "ssh", "ssh-keygen")
PRIVILEGES = Path("/run/sshd")
"""An empty folder that an sshd of root needs; a service of the system makes it when the machine starts."""
SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
"""
CLIENT = """\
Host box 127.0.0.1
HostName 127.0.0.1
Port {port}
User {user}
IdentityFile {folder}/{key}
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/{known}
GlobalKnownHostsFile none
"""


class SshServer:
    """An sshd with its files in `folder`, where `ssh box` reaches it with the PATH of `environment`. What `ssh` asks to
    run is run by a shell with `there` as the beginning of its PATH, after the line of shell `first`. Skips the test if
    OpenSSH is not installed."""

    def __init__(self, folder: Path, there: Path, first: str = ":") -> None:
        require(*PROGRAMS)
        self.folder = folder
        if os.geteuid() == 0:
            PRIVILEGES.mkdir(mode=0o755, exist_ok=True)
        for name in ("host", "user", "stranger"):
            subprocess.run([found("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shell = f'{first}; PATH={there}:/usr/bin:/bin exec sh -c \\"$SSH_ORIGINAL_COMMAND\\"'
        self._write("authorized", f'command="{shell}" {(folder / "user.pub").read_text()}')
        self._reserved = reserved()
        port = self._reserved.getsockname()[1]
        for known, key in (("known", "host"), ("mistaken", "stranger")):
            self._write(known, f"[127.0.0.1]:{port} {(folder / f'{key}.pub').read_text()}")
        self._write("sshd_config", SERVER.format(port=port, folder=folder))
        self.address = f"ssh://{getpass.getuser()}@127.0.0.1:{port}"
        self._port = port
        self.use()
        (folder / "bin").mkdir()
        client = folder / "bin" / "ssh"
        client.write_text(f'#!/bin/sh\nexec {found("ssh")} -F {folder}/ssh_config "$@"\n')
        client.chmod(0o755)
        self.environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
        self._log = folder / "sshd.log"
        with self._log.open("wb") as output:
            command = [found("sshd"), "-D", "-e", "-f", str(folder / "sshd_config")]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)
        deadline = time.monotonic() + TIMEOUT
        while "Server listening" not in (said := self._log.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(said)
            time.sleep(0.002)

    def use(self, key: str = "user", known: str = "known") -> None:
        """Let `ssh box` use another key, or another file of known hosts."""
        user = getpass.getuser()
        self._write("ssh_config", CLIENT.format(port=self._port, folder=self.folder, user=user, key=key, known=known))

    def sessions(self) -> list[int]:
        """Return the ids of the processes that serve a connection."""
        return children(self._process.pid)

    def accepted(self) -> int:
        """Return how many connections were let in."""
        return self._log.read_text().count("Accepted publickey")

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.sessions():
            with suppress(ProcessLookupError):  # it ends by itself once its client has ended
                os.kill(one, signal.SIGKILL)
        self._process.kill()
        self._process.wait(TIMEOUT)
        self._reserved.close()


def children(pid: int) -> list[int]:
    """Return the ids of a process's children, as Linux lists them."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_ended(pid: int) -> bool:
    """Whether a process that is not a child of this one has ended, also if nobody has waited for it."""
    return not Path(f"/proc/{pid}/exe").exists()
