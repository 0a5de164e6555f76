"""The agents on this machine: which there are, whether we know what their versions print, and where their sessions are.

Of an agent nothing is started but `--version`: that costs nothing, and is given up when it takes long.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from tooltap.daemon.doctor.finding import Finding, fine, note, problem
from tooltap.daemon.system.brief_run import run_briefly
from tooltap.daemon.taps.follow.places import AGENTS, Found, roots, scan
from tooltap.traces.drift.baselines import PACKAGED, age, load

__all__ = ["agents", "sessions"]

MOST_FILES = 100_000
"""Session files that are counted of an agent."""
ADAPTERS = frozenset({"acp"})
"""Over ACP the version may be that of an adapter, `claude-agent-acp` 0.100.0, and not the agent's."""

_VERSION = re.compile(r"\d+(?:\.\d+)+(?:-[\w.]+)?")


def agents(commands: Mapping[str, str], timeout: float) -> Iterator[Finding]:
    """`commands`: by name, the provider each is. `timeout`: seconds for each, all at once."""
    found = {name: path for name in commands if (path := shutil.which(name)) is not None}
    if not found:
        advice = "Install one, or tap one of your own: `tooltap run -- COMMAND`."
        yield note("agents", f"none of {', '.join(commands)} is on the PATH", advice)
        return
    known = _recorded()
    with ThreadPoolExecutor(len(found)) as pool:
        told = pool.map(lambda path: _version(path, timeout), found.values())
        for (name, path), version in zip(found.items(), told, strict=True):
            recorded = known.get(commands[name], [])
            if isinstance(version, str):
                yield _compared(f"{name} {version} at {path}", version, recorded)
            else:
                advice = f"Try it yourself: {name} --version."
                yield note("agents", f"{name} at {path} does not tell its version: {version}", advice)


def _version(path: str, timeout: float) -> str | Exception:
    """What it says, or why it does not."""
    try:
        printed = run_briefly([path, "--version"], timeout)
    except OSError as error:
        return Exception(error.strerror)
    if (version := _VERSION.search(printed.text)) is not None:
        return version[0]
    return Exception(f"it takes longer than {timeout:g} s" if printed.code is None else "it prints none")


def _recorded() -> dict[str, list[str]]:
    """Provider -> the versions whose output comes with tooltap, the newest last."""
    versions: dict[str, set[str]] = {}
    for dialect, provider, version in (baseline.agent for baseline in load(PACKAGED)):
        if dialect not in ADAPTERS:
            versions.setdefault(provider, set()).add(version)
    return {provider: sorted(ones, key=age) for provider, ones in versions.items()}


def _compared(agent: str, version: str, recorded: list[str]) -> Finding:
    advice = "Run `tooltap drift` after a session to see whether it prints what we know."
    if not recorded:
        return note("agents", f"{agent}: no version of it has been recorded", advice)
    newest = recorded[-1]
    if age(version) > age(newest):
        return note("agents", f"{agent}: not seen yet, the newest that was recorded is {newest}", advice)
    what = "recorded" if version in recorded else f"recorded are {', '.join(recorded)}"
    return fine("agents", f"{agent}: {what}")


def sessions() -> Iterator[Finding]:
    for agent, place in AGENTS.items():
        [root] = roots((agent,), os.environ)
        if not os.path.lexists(root.path):
            advice = f"It comes with the first session; {place.variable} says where it is, if not there."
            yield note("sessions", f"{agent} has no folder {root.path}", advice)
            continue
        troubles: list[OSError] = []
        files = list(islice(scan(root, root.path, troubles.append), MOST_FILES))
        for error in troubles[:1]:
            advice = "Make it yours to read; sessions in it are not followed."
            yield problem("sessions", f"cannot read {error.filename}: {error.strerror}", advice)
        if files or not troubles:
            advice = f"`tooltap serve --follow {agent}` tells them to whoever watches."
            yield fine("sessions", f"{agent} has {_counted(files)} in {root.path}", advice if files else None)


def _counted(files: list[Found]) -> str:
    if len(files) == MOST_FILES:
        return f"at least {MOST_FILES} session files"
    size = sum(file.size for file in files) / 2**20
    return f"{len(files)} session file{'' if len(files) == 1 else 's'} ({size:.1f} MiB)"
