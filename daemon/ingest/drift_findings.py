"""Persistence of drift findings, as a note in the journal.

They are stored soon after a new finding, and with their counts whenever they are shown. Daemons that share a journal
merge their findings with the stored ones. Findings of another version of tooltap are dropped: this version may know
formats that the other did not.
"""

from __future__ import annotations

import msgspec

from tooltap.daemon.journal.interface import Journal, JournalError
from tooltap.daemon.system.logs import Trouble, get_logger
from tooltap.traces.drift.drift import Drift, Finding

NOTE = "drift"
MAX_BYTES = 256 * 1024
"""Longest note that a journal stores, in bytes. If the findings need more, the newest are left out."""

_log = get_logger("drift")


class Stored(msgspec.Struct):
    version: str
    """Version of tooltap that stored the findings."""
    findings: list[Finding]


class Findings:
    """Loads and stores the findings of a `Drift`. `version`: version of tooltap."""

    def __init__(self, drift: Drift, journal: Journal, version: str) -> None:
        self._drift = drift
        self._journal = journal
        self._version = version
        self._trouble = Trouble(_log, "drift findings cannot be stored", "drift findings can be stored again")
        self._stored = self._number = 0
        """`Drift.changed` and `Drift.number` as of the last store."""

    async def load(self) -> None:
        """Merge in the stored findings. A note that cannot be read is logged and ignored."""
        try:
            data = await self._journal.load_note(NOTE)
            stored = None if data is None else msgspec.msgpack.decode(data, type=Stored)
        except (JournalError, msgspec.DecodeError) as error:
            _log.warning("cannot read the stored drift findings", error=str(error))
            return
        if stored is not None and stored.version == self._version:
            self._drift.restore(stored.findings)

    async def store_new(self) -> None:
        """Store the findings if there is a new one. Call this regularly."""
        if self._drift.number != self._number:
            await self.store()

    async def store(self) -> None:
        """Store the findings if they or their counts have changed. Failures are logged."""
        if (changed := self._drift.changed) == self._stored:
            return
        await self.load()
        findings = self._drift.findings()
        while len(data := msgspec.msgpack.encode(Stored(self._version, findings))) > MAX_BYTES:
            findings = findings[: len(findings) * 3 // 4]
        try:
            await self._journal.store_note(NOTE, data)
        except JournalError as error:
            self._trouble.begin(str(error))
            return
        self._trouble.end()
        self._stored, self._number = changed, self._drift.number
