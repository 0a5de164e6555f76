"""The keeper: a supervisor process between the MCP server and the shell of one command, which ends all processes of the
command.

It ends everything that the command has started when the shell has ended, or when its own standard input is closed: by
the server at a timeout, or by the system when the server dies. A process cannot escape with `setsid` or by outliving
its parent:

- On Linux this process is a subreaper (prctl(2)): a process that loses its parent becomes a child of this one.
- Where the server may create control groups of its own (cgroup v2), the command runs in one. The system kills all of it
  at once, including processes of other users and ones that fork meanwhile.
- Elsewhere, as on macOS, only the shell's process group is ended.

It is run as a file and imports only the standard library, to start within a hundredth of a second.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time
from collections.abc import Collection

SELF = "/proc/self/cgroup"
PATIENCE = 5.0
"""Seconds after which processes that do not end are given up: those of another user, or blocked by a dead disk."""
PAUSE = 0.01
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37


def main(group: str, command: str) -> int:
    """Run the command, and return its exit code. `group`: folder of its control group; empty for none."""
    become_subreaper()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    shell = os.fork()
    if not shell:
        _become_shell(group, command)
    code = None
    while code is None:
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready or os.read(woken, 1)[0] != signal.SIGCHLD:  # the server is gone or has closed it; or a signal
            break
        code = _reap(shell)
    _kill_session(shell)
    remove_group(group)
    until = time.monotonic() + PATIENCE
    while code is None and time.monotonic() < until:
        code = _reap(shell)
        time.sleep(PAUSE)
    end_adopted(())
    return 128 + signal.SIGKILL if code is None else code


def _become_shell(group: str, command: str) -> None:
    try:
        os.setsid()
        if group:
            try:
                _write(f"{group}/cgroup.procs", "0")
            except OSError:  # it is ended without, as where there are none
                pass
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.execv("/bin/sh", ["/bin/sh", "-c", command])
    finally:
        os._exit(127)


def _reap(shell: int) -> int | None:
    """Reap ended children. Return the shell's exit code if it is among them, else None."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if not pid:
            return code
        if pid == shell:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code


def _kill_session(shell: int) -> None:
    try:
        os.killpg(shell, signal.SIGKILL)
    except OSError:  # it has ended; on macOS also if only a zombie is left of it
        pass


# -- what lost its parent -------------------------------------------------------------------------------------------


def become_subreaper() -> None:
    """Become a subreaper, to which orphaned descendants are re-parented, if the system supports it."""
    _prctl(_SET_SUBREAPER, 1)


def is_subreaper() -> bool:
    import ctypes

    found = ctypes.c_int(0)
    return _prctl(_GET_SUBREAPER, ctypes.addressof(found)) == 0 and bool(found.value)


def end_adopted(others: Collection[int]) -> None:
    """Kill and reap all children, and their children, which are re-parented to this process, until there are none.
    `others`: children to spare.

    It hardly pauses, because a process can fork and exit faster than the children are listed.
    """
    known: dict[int, float] = {}
    while children := [pid for pid in _children() if pid not in others]:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # of another user
                pass
        now = time.monotonic()
        are_new = not known.keys() >= set(children)
        known = {pid: known.get(pid, now) for pid in children}
        for pid in children:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        if all(now - since > PATIENCE for since in known.values()):
            return
        if not are_new:
            time.sleep(PAUSE / 10)


def _children() -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:  # no Linux, or one without this file
        return _children_of_all()
    return found


def _children_of_all() -> list[int]:
    found: list[int] = []
    own = str(os.getpid()).encode()
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for number in numbers:
        try:
            with open(f"/proc/{number}/stat", "rb") as file:
                if file.read(1_024).rpartition(b")")[2].split()[1] == own:
                    found.append(int(number))
        except (OSError, IndexError):  # it has ended
            continue
    return found


def _prctl(option: int, argument: int) -> int:
    if sys.platform != "linux":
        return -1
    import ctypes

    zero = ctypes.c_ulong(0)
    return int(ctypes.CDLL(None).prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero))


# -- control groups --------------------------------------------------------------------------------------------------


def make_group() -> str:
    """Create a control group below this process's own, and return its folder; empty if that is not possible."""
    try:
        if (own := _own_group()) is None:
            return ""
        group = f"{own}/tooltap-{os.urandom(8).hex()}"
        os.mkdir(group, 0o700)
        if os.access(f"{group}/cgroup.kill", os.W_OK):  # since Linux 5.14
            return group
        os.rmdir(group)
    except OSError:
        pass
    return ""


def remove_group(group: str) -> None:
    """Kill every process in the group, and remove it. `group`: empty for none. A group that does not exist is no
    error."""
    if not group:
        return
    try:
        _write(f"{group}/cgroup.kill", "1")
    except OSError:
        return
    until = time.monotonic() + PATIENCE
    while True:
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:  # busy: they have not ended yet
                return
        time.sleep(PAUSE)


def _own_group() -> str | None:
    """The folder of the control group of this process."""
    with open(SELF) as file:
        path = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
    if path is None:
        return None
    with open("/proc/self/mountinfo") as file:
        for line in file:
            about, _, kind = line.partition(" - ")
            if kind.startswith("cgroup2 "):
                root, place = about.split()[3:5]
                if path == root or path.startswith(root.rstrip("/") + "/"):
                    return place + path.removeprefix(root.rstrip("/")).rstrip("/")
    return None


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
