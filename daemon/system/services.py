"""The daemon as a system service: a unit of systemd's user manager, with queries to it, or an agent of launchd."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from tooltap.daemon.system.processes import Printed, run_briefly
from tooltap.normalizers.catalog.registry import stores

NAME = "tooltap.service"
BOOTED = Path("/run/systemd/system")
"""Exists where systemd runs (sd_booted(3))."""
PATIENCE = 30.0
"""Timeout in seconds for a query to the system: on a busy machine even a quick one takes a while."""
MARK = "# Written by `tooltap service install`, which writes it anew."

_PLAIN = re.compile(r"[\w@%$+=:,./-]+")

_UNIT = """\
{mark}

[Unit]
Description=tooltap: one stream of what coding agents do

[Service]
Type=notify
ExecStart={command}
{environment}
# Restart after a failure, except for a wrong configuration.
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=2
# A long write-ahead log of the journal is read first.
TimeoutStartSec=10min
TimeoutStopSec=30

# All of this holds for the commands of `[tools.*] rewrite`, too. Some of them compile as they run, as Node does, so
# memory may become executable.
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
# Of AF_NETLINK, the daemon asks which user a connection belongs to.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
{confinement}
[Install]
WantedBy=default.target
"""


_CONFINEMENT = """
# The files of agents can be read, and nothing but these folders can be written to.
ReadWritePaths={writable}
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp={private_tmp}
PrivateDevices=yes
PrivateMounts=yes
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
CapabilityBoundingSet=
"""
_OPEN = """
# This system grants users no namespaces (user_namespaces(7)), so files cannot be protected.
"""
TEMPORARY = ("/tmp", "/var/tmp")
_TEMPORARY = re.compile(r"(?:^|[=:])/(?:var/)?tmp(?:/|$)")


def variables() -> list[str]:
    """Return the names of environment variables that are copied to the service, if set: it does not inherit those of a
    shell. Variables of agents locate their sessions; `PATH` is for the commands that rewrite results."""
    agents = {store.variable for of_agent in stores().values() for store in of_agent if store.variable}
    own = ("TOOLTAP_SOCKET", "TOOLTAP_SPOOL", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    prefixes = ("TOOLTAP_TRACE", "HAPPIER_STACK_TOOL_TRACE")
    tracing = [f"{prefix}{suffix}" for prefix in prefixes for suffix in ("", "_FILE", "_DIR")]
    return [*own, *sorted(agents - {*own}), *tracing, "HAPPIER_HOME_DIR", "PATH"]


def unit(command: Sequence[str], environment: Mapping[str, str], writable: Sequence[Path] | None) -> str:
    """The unit file. `command`: the absolute path of a program, and its arguments. `environment`: provides
    `variables`. `writable`: the folders that the daemon writes to; None if it cannot be confined to them."""
    assignments = [f"{name}={environment[name]}" for name in variables() if environment.get(name)]
    return _UNIT.format(
        mark=MARK,
        command=" ".join([_word(command[0]), *(_word(word.replace("$", "$$")) for word in command[1:])]),
        environment="".join(f"Environment={_word(one)}\n" for one in assignments),
        confinement=_OPEN if writable is None else _confinement(writable, [*command, *assignments]),
    )


def grants_namespaces() -> bool:
    """Whether a service of this user can be confined to certain folders: this needs user and mount namespaces."""
    program = shutil.which("unshare")
    if program is None:
        return False
    answer = run_briefly([program, "--user", "--mount", "true"], PATIENCE)
    return answer is not None and answer.code == 0


def _confinement(writable: Sequence[Path], words: Sequence[str]) -> str:
    """The lines of the unit that confine writes to `writable`. `words`: words of the command and its environment; if
    one is a temporary path, even of the program itself, the service sees the real temporary folders."""
    is_shared = any(_TEMPORARY.search(one) for one in (*map(str, writable), *words))
    folders = dict.fromkeys([*map(str, writable), *(TEMPORARY if is_shared else ())])
    return _CONFINEMENT.format(
        writable=" ".join(_word(f"-{folder}") for folder in folders), private_tmp="no" if is_shared else "yes"
    )


def unit_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "systemd" / "user" / NAME


def is_ours(path: Path) -> bool:
    """Whether tooltap wrote the file. Raises `OSError` if it cannot be read."""
    return path.read_text(errors="replace").startswith(MARK)


def ask_systemctl(*arguments: str, timeout: float) -> Printed | None:
    """Run `systemctl --user`; None if there is no such systemd."""
    program = shutil.which("systemctl")
    if program is None or not BOOTED.is_dir():
        return None
    return run_briefly([program, "--user", "--no-pager", *arguments], timeout)


def _word(text: str) -> str:
    """Quote a word for systemd: quotes, C escapes, and `%%` for `%` (systemd.syntax(7))."""
    text = text.replace("%", "%%")
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def notify_ready() -> None:
    """Notify systemd, if it started this process and wants to know (sd_notify(3)). Errors are ignored: the variable may
    come from elsewhere."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect(f"\0{place[1:]}" if place.startswith("@") else place)
            sender.sendall(b"READY=1")
        except OSError:
            pass


# -- launchd ----------------------------------------------------------------------------------------------------------

LABEL = "tooltap"
PLIST_MARK = "<!-- Written by `tooltap service install`, which writes it anew. -->"
LOG = "Library/Logs/tooltap.log"
_BEGIN = "<plist "


def plist(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The property list (launchd.plist(5)). `command`: the absolute path of a program, and its arguments.
    `environment`: provides `variables`."""
    import plistlib  # only where there is launchd

    text = plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "EnvironmentVariables": {name: environment[name] for name in variables() if environment.get(name)},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "Umask": 0o077,
            "StandardErrorPath": str(Path.home() / LOG),
        },
        sort_keys=False,
    ).decode()
    return text.replace(_BEGIN, f"{PLIST_MARK}\n{_BEGIN}", 1)


def plist_path() -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def is_our_plist(path: Path) -> bool:
    """Whether tooltap wrote the file. Raises `OSError` if it cannot be read."""
    return PLIST_MARK in path.read_text(errors="replace")
