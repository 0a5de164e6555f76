"""Notify systemd that the daemon is ready."""

from __future__ import annotations

import os
import socket

__all__ = ["notify_ready"]


def notify_ready() -> None:
    """Notify systemd, if it started this process and wants to know (sd_notify(3)). Errors are ignored: the variable may
    come from elsewhere."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect(f"\0{place[1:]}" if place.startswith("@") else place)
            sender.sendall(b"READY=1")
        except OSError:
            pass
