"""Looks at everything."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from tooltap.daemon.config import Config, ConfigError, load_config
from tooltap.daemon.doctor.agents import agents, sessions
from tooltap.daemon.doctor.disk import folder, journal, traces
from tooltap.daemon.doctor.finding import Finding, fine, problem
from tooltap.daemon.doctor.installation import installation
from tooltap.daemon.doctor.running import ask_daemon, drift, journal_place, socket, web
from tooltap.daemon.doctor.service import service
from tooltap.daemon.system.paths import config_path, spool_path

__all__ = ["examine"]


def examine(
    *, config_file: Path | None, socket_place: Path | None, commands: Mapping[str, str], timeout: float
) -> Iterator[Finding]:
    """One finding after the other, each as soon as it is found. `commands`: of agents, with the provider that each is.
    `timeout`: seconds for whatever has to be asked."""
    yield from installation()
    config, finding = _configuration(config_file)
    yield finding
    place = socket_place or config.socket_path
    finding, statistics = ask_daemon(place, timeout)
    yield finding
    yield from _guarded("socket", partial(socket, place))
    where = (statistics and journal_place(statistics)) or str(config.journal_place)
    if "://" in where:
        yield fine("journal", f"the journal is {where}, which a daemon looks after")
    else:
        yield from _guarded("journal", partial(journal, Path(where)))
    yield from _guarded("spool", partial(folder, "spool", spool_path()))
    yield from _guarded("traces", partial(traces, statistics))
    if statistics is not None:
        yield web(statistics)
        yield drift(statistics)
    yield from _guarded("service", partial(service, timeout))
    yield from _guarded("agents", partial(agents, commands, timeout))
    yield from _guarded("sessions", sessions)


def _configuration(file: Path | None) -> tuple[Config, Finding]:
    """What holds if it is broken, too."""
    if file is None and not os.path.lexists(file := config_path()):
        return Config(), fine("config", f"there is no configuration file {file}, everything is as usual")
    try:
        config = load_config(file)
        _ = config.journal_place
    except ConfigError as error:
        advice = "Mend it, and look at it with `tooltap config check`; what follows is told as if it were not there."
        return Config(), problem("config", str(error), advice)
    return config, fine("config", f"{file} is right")


def _guarded(area: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What cannot be looked at is a finding, too."""
    try:
        yield from look()
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        yield problem(area, f"cannot look at {what}", "Make it readable, or choose another place.")
