"""A process that is asked to stop ends, whatever blocks it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.daemon.running import TIMEOUT

pytestmark = pytest.mark.timing

SECONDS = 0.3
HOLDERS = {
    "the event loop": "while True: pass",
    "a thread": "threading.Thread(target=endless).start(); await anyio.sleep(1000)",
    "nothing": "await anyio.sleep(1000)",
}
SCRIPT = """
import threading, anyio
from tooltap.daemon.system.foreground import run_until_stopped
from tooltap.daemon.system.foreground import ForcedEnd

def endless():
    while True: pass

async def work(on_stop):
    on_stop(lambda: scope.cancel())
    with anyio.CancelScope() as scope:
        print("ready", flush=True)
        {holder}

run_until_stopped(work, on_signal=ForcedEnd({seconds}).arm)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_process_that_was_told_to_stop_ends(holder: str, number: signal.Signals) -> None:
    seconds = SECONDS if holder != "nothing" else 3_600.0  # it ends by itself, however long that takes
    script = SCRIPT.format(holder=HOLDERS[holder], seconds=seconds)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(number)
        code = process.wait(TIMEOUT)
        took = time.monotonic() - began
    finally:
        process.kill()
        process.communicate()

    if holder == "nothing":
        assert code == (0 if number == signal.SIGTERM else -signal.SIGINT)  # the shell makes 130 of it
    else:
        assert code == (0 if number == signal.SIGTERM else 130)
        assert took >= SECONDS
