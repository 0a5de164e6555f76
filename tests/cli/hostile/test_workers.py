"""Other processes that share the work (`--jobs`) write to the same terminal."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from tests.cli.command import TIMEOUT
from tests.cli.hostile.texts import FORGED, HOSTILE, offences
from tests.test_layout import ROOT

TEXT = HOSTILE.replace(FORGED, "")
PROGRAM = """
import threading
from tests.cli.hostile.test_workers import noisy
from tooltap.cli.common.guard import guard
from tooltap.cli.common.recordings import guarded_workers
from tooltap.daemon.system.workers import WORTH

end = threading.Event()
if {threads}:  # then no process is forked
    threading.Thread(target=end.wait).start()
guard()
with guarded_workers(noisy, range(4), jobs=2, weigh=lambda item: WORTH) as workers:
    assert list(workers) == [0, 1, 2, 3]
end.set()
"""


def noisy(item: int) -> Iterator[int]:
    """Printing, as a library does: what a worker of ours has to say it yields."""
    print(TEXT)
    warnings.warn(TEXT, stacklevel=1)
    yield item


@pytest.mark.parametrize("threads", [False, True], ids=["forked", "spawned"])
def test_what_a_worker_prints_does_not_act(threads: bool) -> None:
    command = [sys.executable, "-c", PROGRAM.replace("{threads}", str(threads))]
    finished = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=TIMEOUT, check=False)

    assert finished.returncode == 0, finished.stderr
    assert b"UserWarning" in finished.stderr
    assert finished.stdout.count(b"title") == 4
    assert offences(finished.stdout, terminal=False) == []
    assert offences(finished.stderr, terminal=False) == []
