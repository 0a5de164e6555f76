"""Programs that tests run and a machine may not have: the one place that says "this test needs program X".

A test names them in its marker, `programs("curl", "jq")`, and a fixture or a helper calls `require("npm")`. Where one
is missing, the test is skipped and says which. `firefox-esr|firefox` means that either will do. A test that starts a
program which it does not name so, and which is not `EVERYWHERE`, fails: on another machine, it would for want of it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Mapping
from types import FrameType
from typing import Any

import pytest

import tooltap

__all__ = ["COMPILER", "found", "missing", "need_programs_of", "of_script", "require", "special_programs", "undeclared"]

COMPILER = "cc|gcc|clang"
COREUTILS = (
    *("cat", "chmod", "chown", "cp", "cut", "date", "dd", "echo", "env", "false", "head", "id", "kill", "ln", "ls"),
    *("mkdir", "mkfifo", "mktemp", "mv", "nohup", "rm", "sleep", "sort", "stat", "sync", "tail", "tee", "timeout"),
    *("touch", "tr", "true", "uname", "wc", "yes"),
)
EVERYWHERE = {*COREUTILS, "bash", "ldconfig", "make", "sh", "tar"}
"""What every machine has on which the tests can be run."""
SCRIPTED = frozenset({"curl", "git", "jq", "node", "npm", "npx", "openssl", "ps"})
"""Programs that shell scripts run: those of the documentation, too."""
COMMAND = re.compile(r"(?:^|[|;&(])[ \t]*(?:[A-Z_]+=\S*[ \t]+)*([a-z]+)\b", re.MULTILINE)
VENV = sysconfig.get_path("scripts")
"""Where Python packages put their programs, `nats-server` among them."""
FOLDERS = frozenset(os.environ.get("PATH", os.defpath).split(os.pathsep)) - {VENV}
"""Where the machine has its programs; a test's own are elsewhere."""
TESTS = os.path.dirname(__file__) + os.sep
PRODUCT = os.path.dirname(tooltap.__file__) + os.sep

_required: set[str] = set()
"""What `require` was called with since the test began."""


def found(names: str) -> str:
    """Return the path of a program, of the first that is there of several; empty if none is."""
    where = os.pathsep.join([os.environ.get("PATH", os.defpath), VENV])
    return next((path for name in names.split("|") if (path := shutil.which(name, path=where))), "")


def missing(*programs: str) -> str:
    """Say which of these programs are not installed; empty if all are."""
    lacking = [" or ".join(one.split("|")) for one in programs if not found(one)]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def require(*programs: str) -> None:
    """Skip the test that runs unless these programs are installed."""
    _required.update(programs)
    if reason := missing(*programs):
        pytest.skip(reason)


def of_script(script: str) -> set[str]:
    """Return the programs that a shell script runs and a machine may not have."""
    return set(SCRIPTED) & set(COMMAND.findall(script))


def need_programs_of(item: pytest.Item) -> None:
    """Skip a test whose marker names a program that is not installed."""
    _required.clear()
    require(*(name for marker in item.iter_markers("programs") for name in marker.args))


def undeclared(started: Collection[str]) -> set[str]:
    """Return those of the started programs that the running test has not said it needs."""
    return set(started) - {os.path.basename(name) for one in _required for name in one.split("|")}


def special_programs(event: str, arguments: tuple[Any, ...]) -> set[str]:
    """Return the names of the programs that an audit event says a test starts, also by a shell, without its own,
    Python, and those that every machine has. The product does without what is missing."""
    if event not in ("subprocess.Popen", "os.posix_spawn") or not _is_of_a_test():
        return set()
    program, words, *_, variables = arguments
    where = variables if isinstance(variables, Mapping) else os.environ
    path = shutil.which(os.fsdecode(program), path=where.get("PATH"))
    if path is None or path == sys.executable or os.path.dirname(path) not in FOLDERS:
        return set()
    name = os.path.basename(path)
    if name in ("bash", "sh") and not isinstance(words, str):
        return {one for word in words if isinstance(word, str) for one in of_script(word)}
    return set() if name in EVERYWHERE or name.startswith("python") else {name}


def _is_of_a_test() -> bool:
    """Whether code of the tests, and not of the product, calls what runs now."""
    frame: FrameType | None = sys._getframe(1)
    while (frame := frame.f_back if frame else None) is not None:
        path = frame.f_code.co_filename
        if path.startswith(PRODUCT):
            return False
        if os.path.basename(path) != "markers.py" and (path.startswith(TESTS) or "/test_" in path):
            return True
    return False
