"""Opens an address in the user's browser, where there is a screen to see it on."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading

from tooltap.daemon.system.processes import users_environment

NAMED = "BROWSER"
"""The user's own choice: a command, with `%s` for the address, and others after a colon."""
REMOTE = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""Variables of a login from another machine, whose screen is not the one that this machine draws on."""
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_in_browser(address: str) -> bool:
    """Return whether a browser was asked to open it. The browser may outlive this process."""
    command = _command(address)
    if command is None:
        return False
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=users_environment(),
        )
    except OSError:
        return False
    threading.Thread(target=process.wait, daemon=True).start()  # so that it does not become a zombie
    return True


def _command(address: str) -> list[str] | None:
    """A browser that runs in a terminal would take ours, so none is looked for."""
    if named := os.environ.get(NAMED):
        try:
            words = shlex.split(named.partition(os.pathsep)[0])
        except ValueError:
            return None
        return [word.replace("%s", address) for word in words] if "%s" in named else [*words, address]
    if any(os.environ.get(name) for name in REMOTE):
        return None
    if sys.platform == "darwin":
        return ["/usr/bin/open", address]
    program = shutil.which("xdg-open") if any(os.environ.get(name) for name in DISPLAYS) else None
    return None if program is None else [program, address]
