"""`python -m tests.prices FOLDER …`: compares estimated costs with those that agents state, in all recordings with such
costs.

The estimate is made as if the agent had stated no cost. Reports every agent and version; exits with 1 if a session is
off by more than `TOLERANCE`. A folder has a `manifest.json` that names its files and their dialects.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.sessions.usage import Cost, SessionUsage, Total, UsagePart
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.testing import read_recording
from tooltap.traces.recording.reader import read_manifest

__all__ = ["TOLERANCE", "Compared", "compared", "rows_of"]

TOLERANCE = 0.01


class Compared(NamedTuple):
    session: str
    stated: float
    estimate: Cost | None
    """None if a model has no price."""

    @property
    def is_off(self) -> bool:
        return self.estimate is not None and abs(self.estimate.usd - self.stated) > TOLERANCE * self.stated


def compared(dialect: str, data: bytes) -> Iterator[Compared]:
    """Yield every session of a recording whose cost the agent states."""
    for session, row in rows_of(dialect, data).items():
        stated = row.used.own_cost
        if stated:
            yield Compared(session, stated, Total.of(_without_costs(row.used)).cost)


def rows_of(dialect: str, data: bytes) -> dict[str, SessionRow]:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    items = [item for line in read_recording(data) for item in normalizer.feed(line.data, line.t, line.direction)]
    rows: dict[str, SessionRow] = {}
    for seq, entry in enumerate([*items, *normalizer.close("end")]):
        if isinstance(entry, Produced) and not entry.replay and not entry.partial:
            row = rows.setdefault(entry.session, SessionRow(provider=entry.provider, first_seq=seq, last_seq=seq))
            row.note(seq, entry)
    return rows


def _without_costs(usage: SessionUsage) -> SessionUsage:
    def stripped(part: UsagePart) -> UsagePart:
        return UsagePart(part.key, msgspec.structs.replace(part.amount, cost_usd=None, unstated=True))

    return SessionUsage(parts=[stripped(part) for part in usage.parts if part.amount.tokens])


def main(folders: list[str]) -> int:
    known = set(dialects())
    agents: dict[str, list[tuple[str, Compared]]] = defaultdict(list)
    for folder in map(Path, folders):
        for row in read_manifest(folder):
            if row.dialect not in known:
                continue
            meta = folder / Path(row.file).parts[0] / "meta.json"
            version = json.loads(meta.read_bytes()).get("version", "") if meta.exists() else ""
            agent = f"{Path(row.file).parts[0]} {version} {row.dialect}"
            found = compared(row.dialect, (folder / row.file).read_bytes())
            agents[agent] += [(f"{folder / row.file}", one) for one in found]
    off = 0
    for agent, sessions in sorted(agents.items()):
        both = [(one.stated, one.estimate) for _, one in sessions if one.estimate is not None]
        stated, estimated = sum(one for one, _ in both), sum(one.usd for _, one in both)
        models = sorted({one.matched or "" for _, one in both})
        wrong = [(file, one) for file, one in sessions if one.is_off]
        off += len(wrong)
        if sessions:
            print(
                f"{agent}: {len(sessions)} stated, {len(both)} estimated, ${stated:.6f} and ${estimated:.6f},"
                f" {len(wrong)} off; {', '.join(models) or 'no model with a price'}"
            )
        for file, one in wrong:
            print(f"  {file} {one.session}: ${one.stated:.6f}, estimated {one.estimate}")
    print(f"{sum(map(len, agents.values()))} sessions with a cost, {off} off by more than {TOLERANCE:.0%}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
