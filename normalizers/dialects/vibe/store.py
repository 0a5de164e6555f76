"""Reader of the folders of Vibe's sessions: a snapshot, and a journal of the changes since then.

The folder of a session has `meta.json`, which describes it, and `CURRENT`, which names the latest generation. The
manifest of a generation names the state of the session, the chunks that hold its history, and the segment of the
journal that follows. The document is built from them:

    {"meta": …, "snapshot": …, "history": [entries of all chunks], "changes": [operations of the journal]}

The agent deletes a generation once there are two newer ones.
"""

from __future__ import annotations

from typing import Any

import orjson

from tooltap.normalizers.catalog.dialect import Folder

_CHANGE = b'"type":"projection_delta"}\n'
"""End of a journal record that changes the history. All others are much longer, and are skipped undecoded. The last
record may be incomplete; it is read once it is complete."""


class VibeStore:
    """Implements `FolderReader`."""

    files: tuple[str, ...] = ("meta.json", "CURRENT", "journal/")

    def document(self, folder: Folder) -> bytes:
        generation = f"generations/{_object(folder, 'CURRENT')['generation']}"
        manifest = _object(folder, f"{generation}/manifest.json")
        state, journal = manifest["projection_state"], manifest["recovery_journal_segment"]
        snapshot, history = _object(folder, f"{generation}/{state['path']}")["snapshot"], []
        for chunk in state["chunks"]:
            history += orjson.loads(folder.read(f"chunks/{chunk}.json"))
        changes = []
        for line in folder.lines(journal["path"], _CHANGE):
            changes += orjson.loads(line)["payload"]["delta"]
        meta = _object(folder, self.files[0])
        return orjson.dumps({"meta": meta, "snapshot": snapshot, "history": history, "changes": changes})


def _object(folder: Folder, name: str) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(folder.read(name))
    return value
