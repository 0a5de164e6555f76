"""The agents on this machine: which are installed, whether their versions are known, and where their sessions are.

Nothing of an agent is started except `--version`, which costs nothing and is stopped when it takes too long.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from tooltap.daemon.doctor.finding import Finding, fine, note, problem
from tooltap.daemon.formats import counted
from tooltap.daemon.system.processes import run_briefly
from tooltap.daemon.taps.follow.database import Database
from tooltap.daemon.taps.follow.reading import Found
from tooltap.daemon.taps.follow.stores import Root, roots, scan
from tooltap.normalizers.catalog.registry import stores
from tooltap.traces.drift.baselines import PACKAGED, age, load

MAX_FILES = 100_000
"""Session files of one agent that are counted."""
ADAPTERS = frozenset({"acp"})
"""Dialects whose version may be an adapter's (`claude-agent-acp` 0.100.0 over ACP) instead of the agent's."""

_VERSION = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9}){1,8}(?:-[\w.]{1,64})?")


def agents(commands: Mapping[str, str], timeout: float) -> Iterator[Finding]:
    """`commands`: program name -> provider. `timeout`: seconds for each; all run at once."""
    found = {name: path for name in commands if (path := shutil.which(name)) is not None}
    if not found:
        advice = "Install one, or tap one of your own: `tooltap run -- COMMAND`."
        yield note("agents", f"none of {', '.join(commands)} is on the PATH", advice)
        return
    known = _recorded()
    with ThreadPoolExecutor(len(found)) as pool:
        versions = pool.map(lambda path: _version(path, timeout), found.values())
        for (name, path), version in zip(found.items(), versions, strict=True):
            recorded = known.get(commands[name], [])
            if isinstance(version, str):
                yield _compared(f"{name} {version} at {path}", version, recorded)
            else:
                advice = f"Try it yourself: {name} --version."
                yield note("agents", f"{name} at {path} does not print its version: {version}", advice)


def _version(path: str, timeout: float) -> str | Exception:
    """The version, or why there is none."""
    try:
        printed = run_briefly([path, "--version"], timeout)
    except OSError as error:
        return Exception(error.strerror)
    if (version := _VERSION.search(printed.text)) is not None:
        return version[0]
    return Exception(f"it takes longer than {timeout:g} s" if printed.code is None else "it prints none")


def _recorded() -> dict[str, list[str]]:
    """Provider -> the versions whose output tooltap has baselines for, newest last."""
    versions: dict[str, set[str]] = {}
    for dialect, provider, version in (baseline.agent for baseline in load(PACKAGED)):
        if dialect not in ADAPTERS:
            versions.setdefault(provider, set()).add(version)
    return {provider: sorted(ones, key=age) for provider, ones in versions.items()}


def _compared(agent: str, version: str, recorded: list[str]) -> Finding:
    advice = "Run `tooltap drift` after a session to check for unknown output."
    if not recorded:
        return note("agents", f"{agent}: no version of it has been recorded", advice)
    newest = recorded[-1]
    if age(version) > age(newest):
        return note("agents", f"{agent}: newer than the newest recorded version, {newest}", advice)
    what = "recorded" if version in recorded else f"recorded versions are {', '.join(recorded)}"
    return fine("agents", f"{agent}: {what}")


def sessions() -> Iterator[Finding]:
    absent = []
    for agent in stores():
        [root] = roots((agent,), os.environ)
        if not os.path.lexists(root.path):
            absent.append(agent)
            continue
        troubles: list[OSError] = []
        files = list(islice(_stored(root, troubles.append), MAX_FILES))
        for error in troubles[:1]:
            advice = "Make it readable; until then its sessions are not followed."
            yield problem("sessions", f"cannot read {error.filename}: {error.strerror}", advice)
        if files or not troubles:
            advice = f"`tooltap serve --follow {agent}` publishes them."
            yield fine("sessions", f"{agent} has {_counted(root, files)} in {root.path}", advice if files else None)
    if absent:
        variables = ", ".join(sorted({stores()[agent].variable for agent in absent} - {""}))
        elsewhere = f" If they are elsewhere, set {variables}." if variables else ""
        advice = f"The first session creates them.{elsewhere}"
        yield note("sessions", f"{', '.join(absent)}: no folder of sessions", advice)


def _stored(root: Root, trouble: Callable[[OSError], None]) -> Iterator[Found]:
    if not isinstance(root.reader, Database):
        yield from scan(root, root.path, trouble)
        return
    try:
        yield from root.reader.list_sessions()
    except FileNotFoundError:
        return
    except OSError as error:
        trouble(error)


def _counted(root: Root, files: list[Found]) -> str:
    what = "session" if root.place.database is not None else "session file"
    if len(files) == MAX_FILES:
        return f"at least {MAX_FILES} {what}s"
    size = "" if root.place.database is not None else f" ({sum(file.size for file in files) / 2**20:.1f} MiB)"
    return f"{counted(len(files), what)}{size}"
