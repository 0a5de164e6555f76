"""How every tool call ended. FILE, the first argument, keeps where to go on the next time."""

import asyncio
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
        cursor.write_text(events.cursor or "")


asyncio.run(main(Path(sys.argv[1])))
