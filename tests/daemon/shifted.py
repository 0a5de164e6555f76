"""`tooltap` with a wall clock that a test sets: python -m tests.daemon.shifted FILE ARGUMENT...

The file has the milliseconds by which the clock is ahead.
"""

from __future__ import annotations

import os
import sys
import time

from tests.daemon.constants import assign_from_environment
from tooltap.cli.main import main


def shift(file: int) -> None:
    real = time.time_ns

    def shifted() -> int:
        return real() + int(os.pread(file, 30, 0) or 0) * 1_000_000

    time.time_ns = shifted


if __name__ == "__main__":
    assign_from_environment()
    shift(os.open(sys.argv.pop(1), os.O_RDONLY))
    main()
