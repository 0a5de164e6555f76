"""Forks and resumed sessions of agents, from their lines to what a journal counts: the parent and one request more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from tests.daemon.events import commit
from tests.normalizers.dialects.acp import test_acp_usage as acp
from tests.normalizers.dialects.acp.helpers import SESSION
from tests.normalizers.dialects.cline import test_cline_session as cline
from tests.normalizers.dialects.pi import test_pi_session as pi
from tests.normalizers.dialects.qwen import test_qwen_chat as qwen
from tooltap.daemon.journal.interface import Journal
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.frames import UsageRequest
from tooltap.testing import Line

pytestmark = pytest.mark.anyio


async def publish(
    journal: Journal, dialect: str, stream: str, lines: Sequence[Any], session: str | None = None
) -> None:
    """Commit what a stream of these lines becomes. `session`: the session that the path of a file names."""
    normalizer = StreamNormalizer(Context(stream=stream, session=session), dialect)
    outputs = []
    for one in lines:
        line = one if isinstance(one, Line) else Line(orjson.dumps(one))
        outputs += normalizer.feed(line.data, line.t, line.direction)
    outputs += normalizer.close("end")
    await journal.commit(commit(*outputs, stream=stream, lines=len(lines)))


async def tokens(journal: Journal) -> dict[str | None, int]:
    """Return session -> input tokens."""
    return {row.key: row.input_tokens for row in (await journal.usage(UsageRequest(by="session"))).rows}


async def dollars(journal: Journal) -> float:
    return round(sum(row.cost_usd or 0 for row in (await journal.usage(UsageRequest(by="session"))).rows), 9)


async def origins(journal: Journal) -> dict[str, str | None]:
    return {one["session"]: one.get("forkedFrom") for one in await journal.sessions()}


async def test_pi(journal: Journal) -> None:
    await publish(journal, "pi-session", "a", [pi.header(), *pi.HISTORY])
    await publish(journal, "pi-session", "b", [pi.header(pi.FORK, 10, parentSession=pi.PARENT), *pi.HISTORY, *pi.OWN])

    assert await dollars(journal) == 0.04
    assert await tokens(journal) == {pi.PARENT: 120, pi.FORK: 120}
    assert await origins(journal) == {pi.PARENT: None, pi.FORK: pi.PARENT}


async def test_pi_whose_fork_is_read_first(journal: Journal) -> None:
    await publish(journal, "pi-session", "b", [pi.header(pi.FORK, 10, parentSession=pi.PARENT), *pi.HISTORY, *pi.OWN])
    await publish(journal, "pi-session", "a", [pi.header(), *pi.HISTORY])

    assert await tokens(journal) == {pi.PARENT: 120, pi.FORK: 120}


async def test_qwen(journal: Journal) -> None:
    await publish(journal, "qwen-chat", "a", qwen.HISTORY)
    await publish(journal, "qwen-chat", "b", qwen.fork(*qwen.HISTORY))

    assert await tokens(journal) == {qwen.PARENT: 100, qwen.FORK: 100}
    assert await origins(journal) == {qwen.PARENT: None, qwen.FORK: qwen.PARENT}


async def test_cline(journal: Journal) -> None:
    """The copy names no origin, but its messages keep their ids."""
    more = (cline.user("u3", "Third"), cline.reply("msg_A3", "Three."))
    await publish(journal, "cline-session", "a", [cline.document(*cline.OLD)])
    await publish(journal, "cline-session", "b", [cline.document(*cline.OLD, *more, session="two")])

    assert await tokens(journal) == {"one": 200, "two": 100}
    assert await origins(journal) == {"one": None, "two": "one"}


async def test_gemini_chat_that_is_moved_to_the_newer_format(journal: Journal) -> None:
    head = {"sessionId": "one", "projectHash": "h", "startTime": pi.at(1), "lastUpdated": pi.at(1), "kind": "main"}
    figures = {"input": 100, "output": 10, "cached": 0, "thoughts": 0, "tool": 0, "total": 110}
    answer = {"type": "gemini", "content": "Yes.", "timestamp": pi.at(3), "tokens": figures}
    prompt = {"id": "5f0c1a52-8a0e-4f6e-9f0b-6a5e0d0c4f10", "type": "user", "content": "Go.", "timestamp": pi.at(2)}
    old = [prompt, {"id": "5f0c1a52-8a0e-4f6e-9f0b-6a5e0d0c4f11", **answer}]
    new = {"id": "5f0c1a52-8a0e-4f6e-9f0b-6a5e0d0c4f12", **answer}
    await publish(journal, "gemini-chat", "a", [{**head, "messages": old}])
    await publish(journal, "gemini-chat", "b", [head, *old, {"$set": {"sessionId": "one"}}, new])

    assert await tokens(journal) == {"one": 200}


async def test_acp(journal: Journal) -> None:
    lines = [
        *acp.agent("claude-agent-acp", "0.100.0"),
        *acp.new(),
        *acp.turn(3, acp.costs(0.02)),
        *acp.fork(),
        *acp.turn(4, acp.costs(0.05, session=acp.FORK), session=acp.FORK),
    ]
    await publish(journal, "acp", "a", lines)

    assert await dollars(journal) == 0.05
    assert await origins(journal) == {SESSION: None, acp.FORK: SESSION}


async def test_acp_agent_that_counts_from_the_start_of_its_process(journal: Journal) -> None:
    start = acp.agent("copilot-cli", "1.0.102")
    first = acp.turn(3, inputTokens=1200, outputTokens=42, totalTokens=1242)
    second = acp.turn(4, inputTokens=3600, outputTokens=126, totalTokens=3726)
    third = acp.turn(3, inputTokens=2400, outputTokens=84, totalTokens=2484)
    await publish(journal, "acp", "a", [*start, *acp.new(), *first, *second])
    await publish(journal, "acp", "b", [*start, *acp.load(), *third])

    assert await tokens(journal) == {SESSION: 6000}


async def test_acp_cost_that_a_process_repeats_goes_on(journal: Journal) -> None:
    start = acp.agent("acme", "1.0")
    await publish(journal, "acp", "a", [*start, *acp.new(), *acp.turn(3, acp.costs(0.5))])
    await publish(journal, "acp", "b", [*start, *acp.load(), acp.costs(0.5), *acp.turn(3, acp.costs(0.6, used=20))])

    assert await dollars(journal) == 0.6


async def test_acp_cost_of_a_session_that_claude_code_resumes(journal: Journal) -> None:
    start = acp.agent("claude-agent-acp", "0.100.0")
    await publish(journal, "acp", "a", [*start, *acp.new(), *acp.turn(3, acp.costs(0.5))])
    await publish(journal, "acp", "b", [*start, *acp.load(), *acp.turn(3, acp.costs(0.6))])

    assert await dollars(journal) == 0.6


async def test_qwen_result_after_a_resume(journal: Journal) -> None:
    def run(prompt: int) -> list[dict[str, Any]]:
        start = {"type": "system", "subtype": "init", "session_id": "one", "uuid": "u", "qwen_code_version": "0.24.4"}
        usage = {"input_tokens": prompt, "output_tokens": 42}
        ended = {"type": "result", "subtype": "success", "session_id": "one", "uuid": "r", "is_error": False}
        return [start, {**ended, "usage": usage}]

    await publish(journal, "qwen-stream", "a", run(2400))
    await publish(journal, "qwen-stream", "b", run(3600))

    assert await tokens(journal) == {"one": 3600}


@pytest.mark.parametrize("name", ["claude-code-acp", "acme"])
async def test_acp_cost_that_falls_in_another_process(journal: Journal, name: str) -> None:
    start = acp.agent(name, "0.23.1")
    await publish(journal, "acp", "a", [*start, *acp.new(), *acp.turn(3, acp.costs(0.5))])
    await publish(journal, "acp", "b", [*start, *acp.load(), *acp.turn(3, acp.costs(0.1))])

    assert await dollars(journal) == 0.6
