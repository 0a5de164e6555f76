"""A journal of recorded agents, for tests that damage it, copy it or read all of it."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.publishing import daemon, publish
from tooltap.normalizers.core.items import Limits
from tooltap.protocol.inputs import looks_tapped, write_tapped

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = {
    "acp": "acp/opencode-1.18.33/parallel-calls.jsonl",
    "claude": "claude-stream/claude-code-2.1.330/control-question.jsonl",
    "claude-long": "claude-stream/claude-code-2.1.330/long-output.jsonl",
    "codex": "codex-app-server/codex-0.169/command-denied.jsonl",
}
LIMITS = Limits(string_bytes=2_000)


def records(name: str) -> list[bytes]:
    """A recording as tapped lines."""
    lines = (FIXTURES / RECORDINGS[name]).read_bytes().splitlines()
    return [one + b"\n" if looks_tapped(one) else write_tapped(one, None, "out") + b"\n" for one in lines]


async def begin(path: Path) -> None:
    """Streams of several agents: some have ended, some are suspended in the middle of a call."""
    async with daemon(path, limits=LIMITS, snapshot_bytes=20_000) as streams:
        for name in RECORDINGS:
            lines = records(name)
            for stream, until in ((f"{name}-ended", len(lines)), (f"{name}-open", len(lines) * 2 // 3)):
                publisher = await publish(streams, stream, dialect="auto")
                await publisher.ingest.feed(b"".join(lines[:until]))
                if until == len(lines):
                    await publisher.record(op="end")
                await publisher.ingest.finish()
