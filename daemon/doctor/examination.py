"""All checks, one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from tooltap.daemon.config import Config, ConfigError, load_config
from tooltap.daemon.doctor.agents import agents, sessions
from tooltap.daemon.doctor.disk import journal, scrubbed, spools_of, traces
from tooltap.daemon.doctor.finding import Finding, fine, problem
from tooltap.daemon.doctor.installation import installation, service
from tooltap.daemon.doctor.running import (
    ask_daemon,
    damage,
    drift,
    journal_place,
    log,
    record,
    search_index,
    served_journal,
    socket,
    stalls,
    troubles,
    web,
)
from tooltap.daemon.system.paths import config_path, spool_path


def examine(
    *, config_file: Path | None, socket_place: Path | None, commands: Mapping[str, str], timeout: float
) -> Iterator[Finding]:
    """Yield each finding as soon as it is known. `commands`: an agent's program name -> its provider. `timeout`:
    seconds for each program or daemon that is asked."""
    yield from installation()
    config, finding = _configuration(config_file)
    yield finding
    place = socket_place or config.socket_path
    finding, statistics = ask_daemon(place, timeout)
    yield finding
    yield from troubles(statistics or {})
    yield from _guarded("socket", partial(socket, place))
    where = (statistics and journal_place(statistics)) or str(config.journal_place)
    if "://" in where:
        yield from served_journal(where, statistics)
    else:
        yield from _guarded("journal", partial(journal, Path(where)))
        if statistics is None:
            yield from _guarded("journal", partial(scrubbed, Path(where)))
        else:
            yield from damage(statistics)
    yield from _guarded("spool", partial(spools_of, spool_path(), statistics))
    yield from _guarded("traces", partial(traces, statistics))
    if statistics is not None:
        yield record(statistics)
        yield web(statistics)
        yield drift(statistics)
        yield stalls(statistics)
        yield from search_index(statistics)
        yield log(statistics)
    yield from _guarded("service", partial(service, timeout))
    yield from _guarded("agents", partial(agents, commands, timeout))
    yield from _guarded("sessions", sessions)


def _configuration(file: Path | None) -> tuple[Config, Finding]:
    """The configuration, or the default if it is broken."""
    if file is None and not os.path.lexists(file := config_path()):
        return Config(), fine("config", f"there is no configuration file {file}; the defaults apply")
    try:
        config = load_config(file)
        _ = config.journal_place
    except ConfigError as error:
        advice = "Correct it, and check it with `tooltap config check`. The findings below assume the defaults."
        return Config(), problem("config", str(error), advice)
    return config, fine("config", f"{file} is valid")


def _guarded(area: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Turn an `OSError` into a finding."""
    try:
        yield from look()
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        yield problem(area, f"cannot read {what}", "Make it readable, or choose another place.")
