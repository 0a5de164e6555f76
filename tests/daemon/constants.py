"""Constants of the daemon that tests set to other values: small bounds, short periods.

`running`, `Lives` and the like take them beside the keys of the configuration, as if they were keys. A daemon in a
process of its own gets them in the environment: `python -m tests.daemon.constants serve …` is the command with these
values.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "TOOLTAP_TEST_CONSTANTS"

APP = "tooltap.daemon.app"
SERVER, FEED = "tooltap.daemon.server.server", "tooltap.daemon.web.http.feed"
FILE, FOLLOWER = "tooltap.daemon.taps.follow.file", "tooltap.daemon.taps.follow.follower"
NOTIFIER = "tooltap.daemon.notifications.notifier"
PAGE = "tooltap.daemon.web.page"
SENDER = "tooltap.daemon.telemetry.sender"

CONSTANTS = {
    "at_interval": (SERVER, FEED),
    "display_patience": (APP,),
    "drain_interval": (APP,),
    "files_period": (APP,),
    "finishing": ("tooltap.daemon.taps.gateway.server",),
    "frame_bytes": (SERVER,),
    "hook.restart": ("tooltap.daemon.taps.hooks.run",),
    "huge_bytes": (APP,),
    "long_bytes": (APP,),
    "look_period": (NOTIFIER,),
    "most_queued": (NOTIFIER,),
    "output_cache_bytes": (APP,),
    "output_ttl": (APP,),
    "recent_bytes": (APP,),
    "retention_interval": (APP,),
    "shutdown_grace": (APP, "tooltap.daemon.process"),
    "shutdown_timeout": (APP, "tooltap.daemon.process"),
    "silent_lines": (APP,),
    "snapshot_bytes": (APP,),
    "source.patience": ("tooltap.daemon.taps.source_file",),
    "stall": ("tooltap.daemon.taps.delivery.tap",),
    "streams_listed": (APP,),
    "subscriber_bytes": (SERVER, FEED),
    "surveyed_first": ("tooltap.daemon.journal.sqlite.journal",),
    "sync": ("tooltap.daemon.taps.delivery.spool",),
    "webhook_pauses": (NOTIFIER,),
    "nats.check_period": ("tooltap.daemon.journal.nats.journal",),
    "nats.close_timeout": ("tooltap.daemon.journal.nats.journal",),
    "follow.grace": (FILE,),
    "follow.idle": (FOLLOWER,),
    "follow.open_files": (FOLLOWER,),
    "follow.patience": (FILE,),
    "follow.rescan": (FOLLOWER,),
    "follow.tolerance": (FILE,),
    "follow.poll_share": ("tooltap.daemon.taps.follow.watch",),
    "follow.turn_bytes": (FILE, FOLLOWER),
    "remotes.pauses": ("tooltap.daemon.taps.remotes.remotes",),
    "remotes.silence": ("tooltap.daemon.taps.remotes.remotes",),
    "rewriting.waiting_bytes": ("tooltap.daemon.views.rewriter",),
    "rewriting.waiting_results": ("tooltap.daemon.views.rewriter",),
    "usage_period": ("tooltap.daemon.notifications.spending",),
    "telemetry.first_pause": (SENDER,),
    "telemetry.longest_pause": (SENDER,),
    "telemetry.look_period": (SENDER,),
    "telemetry.most_sessions": (SENDER,),
    "telemetry.most_spans": (SENDER,),
    "telemetry.read": (SENDER,),
    "web.cards": (f"{PAGE}.live", f"{PAGE}.session"),
    "web.feeds": (FEED,),
    "web.heartbeat": (FEED,),
    "web.page_bytes": ("tooltap.daemon.web.api.api",),
    "web.page_events": ("tooltap.daemon.web.api.api",),
    "web.patience": ("tooltap.daemon.web.server",),
    "web.search_bytes": tuple(f"{PAGE}.{name}" for name in ("event", "live", "session", "share")),
}
"""Name in lower case -> the modules that use the constant."""

_SETTING = re.compile(r"(\w+) = .*")
_TABLE = re.compile(r"\[(\w+)\]")


def split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split values into settings of the configuration, and constants."""
    kept: dict[str, Any] = {}
    constants = {}
    for name, value in settings.items():
        if name in CONSTANTS:
            constants[name] = value
        elif isinstance(value, dict) and name != "tools":
            constants |= {f"{name}.{key}": one for key, one in value.items() if f"{name}.{key}" in CONSTANTS}
            kept[name] = {key: one for key, one in value.items() if f"{name}.{key}" not in CONSTANTS}
        else:
            kept[name] = value
    return kept, constants


def assign(constants: Mapping[str, Any]) -> dict[str, Any]:
    """Set constants to these values in this process. Returns the former values."""
    before = {}
    for name, value in constants.items():
        for module in map(importlib.import_module, CONSTANTS[name]):
            constant = name.rpartition(".")[2].upper()
            before[name] = getattr(module, constant)
            setattr(module, constant, value)
    return before


@contextmanager
def assigned(constants: Mapping[str, Any]) -> Iterator[None]:
    before = assign(constants)
    try:
        yield
    finally:
        assign(before)


def write_settings(path: Path, text: str) -> dict[str, str]:
    """Write a configuration file without the lines that set a constant. Returns the constants, as environment variables
    for a process that runs `program`."""
    table, kept, constants = "", [], {}
    for line in text.splitlines():
        if (header := _TABLE.fullmatch(line)) is not None:
            table = f"{header[1]}."
        if (setting := _SETTING.fullmatch(line)) is not None and table + setting[1] in CONSTANTS:
            constants[table + setting[1]] = tomllib.loads(line)[setting[1]]
        else:
            kept.append(f"{line}\n")
    path.write_text("".join(kept))
    return {VARIABLE: json.dumps(constants)} if constants else {}


def program(environment: Mapping[str, str]) -> str:
    """Return the module to run as the `tooltap` command."""
    return "tests.daemon.constants" if VARIABLE in environment else "tooltap.cli"


def assign_from_environment() -> None:
    assign(json.loads(os.environ.get(VARIABLE, "{}")))


def main() -> None:
    from tooltap.cli.main import main as command

    assign_from_environment()
    command()


if __name__ == "__main__":
    main()
