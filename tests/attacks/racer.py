"""Puts a folder in the place of another and back, until its parent ends: `python -m tests.attacks.racer NAME OTHER`."""

from __future__ import annotations

import os
import sys

__all__ = ["exchange"]


def exchange(name: str, other: str) -> None:
    """Move `other` to the place of `name`, and both back."""
    away = f"{name}.away"
    for first, second in (((name, away), (other, name)), ((name, other), (away, name))):
        os.rename(*first)
        os.rename(*second)


if __name__ == "__main__":
    print("ready", flush=True)
    parent = os.getppid()
    while os.getppid() == parent:
        exchange(*sys.argv[1:])
