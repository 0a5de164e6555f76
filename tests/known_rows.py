"""`python -m tests.known_rows MANIFEST`: prints a manifest of recordings without the rows of unknown dialects, and
without those in which the agent did not do what the scenario says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tooltap.normalizers.catalog.registry import dialects

REFUSED = ("droid/exec/S5.jsonl", "droid/exec/S16.jsonl")
"""Droid refuses the scenario's command, because the scripted model gives no `riskLevelReason`."""

if __name__ == "__main__":
    known = set(dialects())
    rows = json.loads(Path(sys.argv[1]).read_bytes())
    read = [row for row in rows if row.get("dialect") in known and row.get("file") not in REFUSED]
    json.dump(read, sys.stdout)
