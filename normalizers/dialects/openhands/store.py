"""Reader of the folders of OpenHands' conversations: the state, which is rewritten, and a file for each event.

The document is built from them: `{"base_state": …, "events": [events in their order]}`.
"""

from __future__ import annotations

from tooltap.normalizers.catalog.dialect import Folder


class OpenHandsStore:
    """Implements `FolderReader`."""

    files: tuple[str, ...] = ("base_state.json", "events/")

    def document(self, folder: Folder) -> bytes:
        state = folder.read(self.files[0])
        names = sorted(name for name in folder.names("events") if name.startswith("event-") and name.endswith(".json"))
        events = b",".join(folder.read(f"events/{name}") for name in names)
        return b'{"base_state":%b,"events":[%b]}' % (state, events)
