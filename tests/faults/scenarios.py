"""The scenarios by name: each is one thing that the daemon or a tap does."""

from __future__ import annotations

from tests.faults.of_journal import Checkpoint, Commit, Ingest, Removal, Retention, Snapshot, Vacuum
from tests.faults.of_lives import Create, Shutdown, Start
from tests.faults.of_readers import Commands, Web
from tests.faults.of_taps import Draining, Following, Tap, TapServed, Tracing
from tests.faults.scenario import Scenario

__all__ = ["SCENARIOS"]

SCENARIOS: dict[str, type[Scenario]] = {
    "ingest": Ingest,
    "commit": Commit,
    "snapshot": Snapshot,
    "checkpoint": Checkpoint,
    "rm": Removal,
    "vacuum": Vacuum,
    "retention": Retention,
    "create": Create,
    "start": Start,
    "shutdown": Shutdown,
    "trace": Tracing,
    "follow": Following,
    "web": Web,
    "spool": Tap,
    "tap": TapServed,
    "drain": Draining,
    "commands": Commands,
}
