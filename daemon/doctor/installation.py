"""tooltap itself: its version, Python, the optional packages, and the systemd service."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tooltap import __version__
from tooltap.daemon.doctor.finding import Finding, fine, note, problem
from tooltap.daemon.system.optional_packages import how_to_install
from tooltap.daemon.system.services.systemd import NAME, ask_systemctl, unit_path

AREA = "tooltap"


class Extra(NamedTuple):
    purpose: str
    modules: tuple[str, ...]


EXTRAS = {
    "attach": Extra("`tooltap attach`", ("httpx",)),
    "gateway": Extra("`tooltap gateway`", ("brotli", "httpx", "zstandard")),
    "mcp": Extra("`tooltap mcp`", ("mcp",)),
    "nats": Extra("a journal on NATS", ("nats", "nkeys")),
}


def installation() -> Iterator[Finding]:
    place = Path(__file__).parents[2]
    yield fine(AREA, f"tooltap {__version__} in {place}, Python {platform.python_version()} at {sys.executable}")
    for name, extra in EXTRAS.items():
        missing = [module for module in extra.modules if find_spec(module) is None]
        if missing:
            text = f"{extra.purpose} needs packages that are not installed: {', '.join(missing)}"
            yield note(AREA, text, f"Run {how_to_install(name)} to use it.")
        else:
            yield fine(AREA, f"the packages for {extra.purpose} are installed")


def service(timeout: float) -> Iterator[Finding]:
    path = unit_path()
    if not path.exists():
        yield fine("service", "the daemon is not a service", "`tooltap service install` starts it with your session.")
        return
    answer = ask_systemctl("is-active", NAME, timeout=timeout)
    state = "" if answer is None else answer.text.strip()
    if state == "failed":
        yield problem("service", f"the service {NAME} has failed", f"See why: journalctl --user -u {NAME}.")
    elif state.isalpha():
        yield fine("service", f"the service {NAME} is installed in {path}, and {state}")
    else:  # an error message, not a state
        yield fine("service", f"{path} exists, but no systemd answers queries about it")
