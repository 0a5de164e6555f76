"""The faults of a storm, in the order that its seed gives: kills, stops, failpoints, full disks, clocks that jump, an
index that is removed."""

from __future__ import annotations

import random
import signal
from pathlib import Path

from tests.storm.world import World

__all__ = ["Faults"]

HOUR = 3_600_000
EARLY = 0.2
"""Share of the faults that do not wait until the daemon answers. If all of them came at any time, a daemon would be
killed before it does anything where it starts slowly."""
FAILPOINTS = (
    "before-commit",
    "after-commit",
    "before-ack",
    "during-snapshot",
    "during-close",
    "claimed",
    "sent-to-agent",
)


class Faults:
    """`victims`: processes that are killed and started again."""

    def __init__(self, world: World, seed: int, victims: list[str]) -> None:
        self._world = world
        self._random = random.Random(f"{seed} faults")
        self._victims = victims
        self._kinds = [
            *(self.kill, self.kill, self.terminate, self.stop, self.failpoint, self.jump, self.remove_index),
            *(self.kill_client, self.kill_client, self.kill_client),
            *(self.kill_other, self.cut_off),
            *([self.fill] if world.can_fill else []),
        ]

    def one(self) -> None:
        """Wait a while, and do one."""
        if self._random.random() >= EARLY:
            self._world.until("the daemon answers", self._world.answers)
        if not self._world.stopping.wait(self._random.uniform(1, 6)):
            self._random.choice(self._kinds)()

    def kill(self) -> None:
        self._world.daemon.signal(signal.SIGKILL)
        self._world.counts["kills of the daemon"] += 1

    def terminate(self) -> None:
        self._world.daemon.signal(signal.SIGTERM)
        self._world.counts["ends of the daemon"] += 1

    def failpoint(self) -> None:
        """The next daemon dies at a place of the code."""
        self._world.daemon.failpoint = f"{self._random.choice(FAILPOINTS)}:{self._random.randrange(1, 300)}"
        self.kill()
        self._world.counts["failpoints"] += 1

    def stop(self) -> None:
        self._world.daemon.signal(signal.SIGSTOP)
        self._world.stopping.wait(self._random.uniform(0.2, 2))
        self._world.daemon.signal(signal.SIGCONT)
        self._world.counts["stops"] += 1

    def jump(self) -> None:
        hours = self._random.choice((0, 5, -5, 24 * 400))
        self._world.ahead.write_text(str(hours * HOUR))
        self._world.counts["clock jumps"] += 1

    def fill(self) -> None:
        self._world.fill()
        self._world.stopping.wait(self._random.uniform(1, 4))
        if self._random.random() < 0.3:
            self.kill()
            self._world.stopping.wait(1)
        self._world.free()
        self._world.counts["full disks"] += 1

    def remove_index(self) -> None:
        index = f"{self._world.journal}.search"
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{index}{suffix}").unlink(missing_ok=True)
        self._world.counts["indexes removed"] += 1

    def kill_client(self) -> None:
        self._world.restart(self._random.choice(self._victims))
        self._world.counts["kills of clients"] += 1

    def kill_other(self) -> None:
        self._world.other.signal(signal.SIGKILL)
        self._world.counts["kills of the other daemon"] += 1

    def cut_off(self) -> None:
        self._world.cut_off()
        self._world.counts["kills of the connection"] += 1
