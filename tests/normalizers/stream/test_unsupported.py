"""What `auto` does with agents that have no dialect: it picks one that their lines fit, else states why not."""

import pytest

from tests.normalizers.reading import outline
from tests.normalizers.stream.unsupported import UNSUPPORTED
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import AUTO, StreamNormalizer
from tooltap.protocol.events import Event, Unparsed
from tooltap.testing import Line, check_survives, normalize

FITTING = {
    "grok-cli": (
        "kimi-json",
        [
            "message user",
            "turn started",
            "message assistant",
            "tool-call Bash",
            "tool-result Bash completed",
            "message assistant",
            "turn completed",
        ],
    ),
    "trae": (
        "claude-stream",
        ["session", "turn started", "unparsed", "message assistant", "turn completed"],
    ),
}
"""Agent -> the dialect that `auto` picks, and the outline of its events."""

TEXT = {"amazon-q": {"not-json"}}
"""Agent that prints text -> reasons for which its lines are unparsed."""


def read(agent: str) -> tuple[StreamNormalizer, list[Event]]:
    normalizer = StreamNormalizer(Context(stream="s"))
    for line in lines(agent):
        normalizer.feed(line.data)
    return normalizer, normalize(AUTO, lines(agent), Context(stream="s"))


def lines(agent: str) -> list[Line]:
    return [Line(line.encode()) for line in UNSUPPORTED[agent].lines]


@pytest.mark.parametrize("agent", FITTING)
def test_fitting_lines_are_read(agent: str) -> None:
    normalizer, found = read(agent)

    assert (normalizer.dialect, outline(found)) == FITTING[agent]
    check_survives(FITTING[agent][0], lines(agent))


@pytest.mark.parametrize("agent", sorted(UNSUPPORTED.keys() - FITTING.keys()))
def test_other_lines_are_unparsed_with_reason(agent: str) -> None:
    normalizer, found = read(agent)

    assert normalizer.dialect is None
    assert {event.reason for event in found if isinstance(event, Unparsed)} == TEXT.get(agent, {"unknown-dialect"})
    assert [event.line for event in found if isinstance(event, Unparsed)] == list(range(1, len(lines(agent)) + 1))
    assert {(event.dialect, event.provider) for event in found} == {("unknown", "unknown")}


@pytest.mark.parametrize("agent", UNSUPPORTED)
def test_publisher_names_provider(agent: str) -> None:
    found = normalize(AUTO, lines(agent), Context(stream="s", provider=agent))

    assert {event.provider for event in found} == {agent}


@pytest.mark.parametrize("agent", UNSUPPORTED)
def test_every_line_has_a_class(agent: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"))
    for line in lines(agent):
        normalizer.feed(line.data)
    normalizer.close("end")
    statistics = normalizer.statistics

    assert statistics.lines == len(lines(agent))
    assert statistics.lines == statistics.with_events + statistics.unparsed + sum(statistics.skipped.values())
