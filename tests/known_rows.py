"""`python -m tests.known_rows MANIFEST`: prints a manifest of recordings without the rows of unknown dialects."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tooltap.normalizers.catalog.registry import dialects

if __name__ == "__main__":
    known = set(dialects())
    rows = json.loads(Path(sys.argv[1]).read_bytes())
    json.dump([row for row in rows if row.get("dialect") in known], sys.stdout)
