"""Print how every tool call ended. The first argument names a file that stores where the next run resumes."""

import asyncio
import os
import sys
from pathlib import Path

from tooltap.client import Filter, Gap, subscribe
from tooltap.protocol.events import ToolResult


async def main(cursor: Path) -> None:
    after = cursor.read_text() if cursor.exists() else "start"
    events = subscribe(after=after, filter=Filter(kind=("tool-result",)), follow="--no-follow" not in sys.argv)
    async for event in events:
        if isinstance(event, Gap):
            print(f"events {event.from_} to {event.to} are gone")
        elif isinstance(event, ToolResult):
            print(event.provider, event.name, event.status)
        # Written beside and renamed, so that whoever stops this program leaves a whole cursor.
        beside = cursor.with_name(f"{cursor.name}.new")
        beside.write_text(events.cursor or "")
        os.replace(beside, cursor)


asyncio.run(main(Path(sys.argv[1])))
