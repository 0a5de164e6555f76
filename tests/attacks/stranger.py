"""A process of another user of this machine, in which a test runs functions."""

from __future__ import annotations

import inspect
import json
import os
import pwd
import subprocess
import sys
import textwrap
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

__all__ = ["MISSING", "USER", "Stranger", "StrangerError"]

USER = "nobody"
TIMEOUT = 30

MISSING = "" if os.geteuid() == 0 else "only root can start a process of another user"

# What functions import is loaded before the process gives up its rights: the other user may be unable to read the
# interpreter's files. `socket` looks for `encodings.idna` when it first connects.
_PROGRAM = """
import __future__, ctypes, encodings.idna, errno, fcntl, glob, http.client, itertools, json, os, pathlib, select
import shutil, signal
import socket, stat, struct, subprocess, sys, tempfile, threading, time, traceback, urllib.parse, urllib.request
uid, gid = map(int, sys.argv[1:])
os.setgroups([])
os.setresgid(gid, gid, gid)
os.setresuid(uid, uid, uid)
os.chdir("/")
os.environ["HOME"] = "/nonexistent"
for line in sys.stdin:
    name, source, arguments = json.loads(line)
    names = {}
    try:
        exec(compile(source, "<" + name + ", as a stranger>", "exec"), names)
        answer = {"returned": names[name](*arguments)}
    except OSError as error:
        answer = {"errno": error.errno, "text": str(error), "trace": traceback.format_exc()}
    except BaseException:
        answer = {"trace": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
"""


class StrangerError(Exception):
    """Raised if a function fails with anything but an `OSError`; the message is its traceback."""


class Stranger:
    """A process of another user without privileges. It ends with the `with` block."""

    def __init__(self) -> None:
        user = pwd.getpwnam(USER)
        self.uid, self.gid = user.pw_uid, user.pw_gid
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, str(self.uid), str(self.gid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        self.pid = self._process.pid

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in that process, and return what it returns. Only its source is sent: it must import what it
        needs from the standard library, and take and return JSON values. Raises `OSError` as the function did, so
        `pytest.raises(PermissionError)` checks that the system refuses something; and `StrangerError`."""
        self.begin(function, *arguments)
        return self.result()

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a function while the test continues; `result` waits for it."""
        source = "from __future__ import annotations\n" + textwrap.dedent(inspect.getsource(function))
        assert self._process.stdin is not None
        paths_as_text = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in arguments]
        self._process.stdin.write(json.dumps([function.__name__, source, paths_as_text]) + "\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the stranger's process has ended"
        answer = json.loads(line)
        if "errno" in answer and answer["errno"] is not None:
            raise OSError(answer["errno"], answer["text"])
        if "trace" in answer:
            raise StrangerError(answer["trace"])
        return answer["returned"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:  # what was written last is not taken any more
                pass
        self._process.wait(TIMEOUT)
