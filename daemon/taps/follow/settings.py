"""The `[follow]` table of the configuration: the agents whose sessions are followed, and options."""

from __future__ import annotations

import math
import re
from typing import Annotated, TypeAlias

import msgspec

from tooltap.daemon.system.processes import usable_cores
from tooltap.normalizers.catalog.registry import stores

Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]

ALL = "all"
"""Value of `agents` that stands for every agent that stores sessions."""
MOST_JOBS = 4
"""The default number of processes goes no higher: more of them normalize faster than the daemon can commit."""

_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Follow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How session files are followed; no file is followed unless `agents` names its agent."""

    agents: tuple[str, ...] = ()
    """The agents whose files are followed: their names, or `all`."""
    backfill: str = "24h"
    """Which files that were never followed are read from their beginning: `all`; those modified within this time before
    the daemon started (`36h`, `7d`); or `none`, which reads only what is appended from now on."""
    folders: dict[str, tuple[str, ...]] = {}
    """Agent -> further folders in which it stores sessions, of the kind that its environment variable names: of another
    account, the other side of WSL, a container's volume."""
    polling: bool = False
    """Poll for changes, for file systems that report none."""
    watches: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Folders and files that are watched for changes, at most (Linux); 0: as many as the system allows. Of a store that
    has more, the folders written last are watched, and all of it is listed periodically."""
    projects: Annotated[int, msgspec.Meta(ge=0)] = 256
    """Projects that are followed because an agent's list names them, or because sessions were in them, at most of each
    agent: those that were used last."""
    telemetry_wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 5.0
    """Seconds for which the first telemetry of a session waits for the session's file. Exporters wait for an answer for
    10 s, as a rule, and then send again."""
    answer_timeout: Seconds = 43_200.0
    """How long a session file that does not change may wait for an answer. Later its session is interrupted."""
    jobs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Processes that normalize what a backfill reads; 0: one for each processor core, at most `MOST_JOBS`; 1: only the
    daemon itself."""

    def __post_init__(self) -> None:
        for agent in self.agents:
            if agent not in (ALL, *stores()):
                raise ValueError(f"no session files of {agent!r} are known; there are {', '.join(stores())}, {ALL}")
        for agent in self.folders:
            if agent not in stores():
                raise ValueError(f"no session files of {agent!r} are known; there are {', '.join(stores())}")
        if self.backfill not in ("all", "none") and not _AGE.fullmatch(self.backfill):
            raise ValueError(f"backfill is all, none or an age like 36h or 7d, not {self.backfill!r}")

    @property
    def followed(self) -> tuple[str, ...]:
        """The names of the agents whose files are followed."""
        return tuple(stores()) if ALL in self.agents else self.agents

    @property
    def processes(self) -> int:
        return self.jobs or min(usable_cores(), MOST_JOBS)

    @property
    def backfill_seconds(self) -> float:
        if (age := _AGE.fullmatch(self.backfill)) is not None:
            return float(age[1]) * _UNITS[age[2]]
        return math.inf if self.backfill == "all" else 0.0
