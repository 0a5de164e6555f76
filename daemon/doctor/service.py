"""The systemd service."""

from __future__ import annotations

from collections.abc import Iterator

from tooltap.daemon.doctor.finding import Finding, fine, problem
from tooltap.daemon.system.services.systemd import NAME, ask_systemctl, unit_path

__all__ = ["service"]


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
