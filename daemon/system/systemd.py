"""The daemon as a service of systemd's user manager: the unit, what systemd says of it, and what it is told."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tooltap.daemon.system.brief_run import Printed, run_briefly

__all__ = ["NAME", "VARIABLES", "ask_systemctl", "is_ours", "unit", "unit_path"]

NAME = "tooltap.service"
BOOTED = Path("/run/systemd/system")
"""Is there where systemd runs (sd_booted(3))."""
MARK = "# Written by `tooltap service install`, which writes it anew."
VARIABLES = (
    "TOOLTAP_SOCKET",
    "TOOLTAP_SPOOL",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "HAPPIER_STACK_TOOL_TRACE",
    "HAPPIER_STACK_TOOL_TRACE_FILE",
    "HAPPIER_STACK_TOOL_TRACE_DIR",
    "HAPPIER_HOME_DIR",
    "PATH",
)
"""A service does not know what a shell has been told: these, if they are set, it is given. `PATH` is for the commands
that rewrite results."""

_PLAIN = re.compile(r"[\w@%$+=:,./-]+")

_UNIT = """\
{mark}

[Unit]
Description=tooltap: one stream of what coding agents do

[Service]
Type=notify
ExecStart={command}
{environment}
# What was started in vain is tried again, save a wrong configuration.
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=2
# A journal of an older format is brought up to date first.
TimeoutStartSec=10min
TimeoutStopSec=30

# Hardening that needs no namespace, which not every kernel grants to users. The daemon writes where it is told to, and
# runs the commands of `[tools.*] rewrite`, so neither files nor the network are taken from it.
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""


def unit(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """`command`: the absolute path of a program, and its arguments. `environment`: the service gets its `VARIABLES`."""
    assignments = (f"{name}={environment[name]}" for name in VARIABLES if environment.get(name))
    return _UNIT.format(
        mark=MARK,
        command=" ".join([_word(command[0]), *(_word(word.replace("$", "$$")) for word in command[1:])]),
        environment="".join(f"Environment={_word(one)}\n" for one in assignments),
    )


def unit_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "systemd" / "user" / NAME


def is_ours(path: Path) -> bool:
    """Whether what is there was written by us. Raises `OSError`, if it cannot be read."""
    return path.read_text(errors="replace").startswith(MARK)


def ask_systemctl(*arguments: str, timeout: float) -> Printed | None:
    """What the user's systemd answers; None where there is none that can be asked."""
    program = shutil.which("systemctl")
    if program is None or not BOOTED.is_dir():
        return None
    return run_briefly([program, "--user", "--no-pager", *arguments], timeout)


def _word(text: str) -> str:
    """As systemd reads it: quotes, C's escapes, and `%` for what it replaces (systemd.syntax(7))."""
    text = text.replace("%", "%%")
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
