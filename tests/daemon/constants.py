"""Constants of the daemon that tests set to other values: small bounds, short periods.

`running`, `Lives` and the like take them by name beside the keys of the configuration. A daemon in a process of its own
gets them in the environment: `python -m tests.daemon.constants serve …` is the command with these values.
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

CONSTANTS = {
    "at_interval": (SERVER, FEED),
    "display_patience": (APP,),
    "drain_interval": (APP,),
    "frame_bytes": (SERVER,),
    "huge_bytes": (APP,),
    "long_bytes": (APP,),
    "output_cache_bytes": (APP,),
    "output_ttl": (APP,),
    "recent_bytes": (APP,),
    "retention_interval": (APP,),
    "shutdown_timeout": (APP, "tooltap.daemon.process"),
    "silent_lines": (APP,),
    "snapshot_bytes": (APP,),
    "subscriber_bytes": (SERVER, FEED),
}
"""Name, in small letters -> the modules that use it."""

_SETTING = re.compile(r"(\w+) = .*")


def split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the configuration, and constants."""
    constants = {name: value for name, value in settings.items() if name in CONSTANTS}
    return {name: value for name, value in settings.items() if name not in CONSTANTS}, constants


def assign(constants: Mapping[str, Any]) -> dict[str, Any]:
    """Give the constants these values in this process. Returns those that they had."""
    before = {}
    for name, value in constants.items():
        for module in map(importlib.import_module, CONSTANTS[name]):
            before[name] = getattr(module, name.upper())
            setattr(module, name.upper(), value)
    return before


@contextmanager
def assigned(constants: Mapping[str, Any]) -> Iterator[None]:
    before = assign(constants)
    try:
        yield
    finally:
        assign(before)


def write_settings(path: Path, text: str) -> dict[str, str]:
    """Write a configuration file without the lines that set a constant. Returns these, as variables of a process that
    `program` starts."""
    lines = [(_SETTING.fullmatch(line), line) for line in text.splitlines()]
    constants = {match[1]: tomllib.loads(match[0])[match[1]] for match, _ in lines if match and match[1] in CONSTANTS}
    path.write_text("".join(f"{line}\n" for match, line in lines if not match or match[1] not in CONSTANTS))
    return {VARIABLE: json.dumps(constants)} if constants else {}


def program(environment: Mapping[str, str]) -> str:
    """The module to run as the command."""
    return "tests.daemon.constants" if VARIABLE in environment else "tooltap.cli"


def assign_from_environment() -> None:
    assign(json.loads(os.environ.get(VARIABLE, "{}")))


def main() -> None:
    from tooltap.cli.main import main as command

    assign_from_environment()
    command()


if __name__ == "__main__":
    main()
