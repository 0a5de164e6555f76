"""`tooltap answers`: tries the rules that answer permission requests."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tooltap.cli.common.columns import print_table
from tooltap.cli.common.commands import Group
from tooltap.cli.common.connection import daemon_errors, socket_option, wait_option, waiting
from tooltap.cli.common.filters import json_option, time_options
from tooltap.cli.common.printing import on_stderr, say_object, short, warn

if TYPE_CHECKING:
    from tooltap.daemon.answers.rules import AnswerRule, Decision

HEADS = ("SEQ", "AGENT", "SESSION", "TOOL", "ASKED", "RULES", "BY", "SAID")
KINDS = ("tool-call", "permission-request", "permission-response")
MOST_CALLS = 10_000
"""Latest calls whose input is remembered for a request that states none."""
MOST_SESSIONS = 1_000_000


class _Asked(NamedTuple):
    event: dict[str, Any]
    call: dict[str, Any] | None
    """The input of the call."""


@click.group("answers", cls=Group, examples=("tooltap answers test",))
def command() -> None:
    """Try the rules that answer permission requests.

    The rules are the tables `[[answers]]` of the daemon's configuration.
    """


@command.command(
    "test",
    examples=(
        "tooltap answers test",
        "tooltap answers test tooltap.toml --since 7d --json | jq 'select(.answer == \"allow\")'",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@time_options("Requests of this time or later", "Requests before this time, or on this day or earlier.")
@json_option("Print one JSON object per line.")
@wait_option
@socket_option
def test(file: Path | None, since: int | None, until: int | None, as_json: bool, socket: Path | None) -> None:
    """Say what the rules would have answered.

    Every permission request of the journal is listed, with what the rules of FILE say, which of them, and what was said
    then. Nothing is answered. FILE defaults to the file that a daemon without `--config` reads.
    """
    from tooltap.cli.manage.config import InvalidConfiguration
    from tooltap.cli.read.sessions import list_sessions
    from tooltap.daemon.answers.rules import decide
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.system.paths import config_path

    try:
        rules = load_config(file or config_path()).answers
    except ConfigError as error:
        raise InvalidConfiguration(str(error)) from None
    if not rules:
        warn("there are no rules: the configuration has no `[[answers]]`")
    sessions = {one["session"]: one for one in list_sessions(socket, MOST_SESSIONS, empty=True)}
    asked, said = _history(socket)
    rows, tally = [], Counter[tuple[str, str, str]]()
    for one in asked:
        event = one.event
        if not (since or 0) <= event.get("ts", 0) < (until or event.get("ts", 0) + 1):
            continue
        session = sessions.get(event["session"], {"session": event["session"], "provider": event["provider"]})
        decision = decide(rules, event, session, one.call)
        answered = said.get((event["stream"], event["permissionId"], event["seq"]), {})
        rows.append(_row(one, decision, answered))
        for rule in decision.rules:
            tally[rule.name, decision.answer, str(answered.get("outcome", "nothing"))] += 1
    if as_json:
        for row in rows:
            say_object({key: value for key, value in row.items() if value is not None})
        return
    if not rows:
        warn("no permission was asked for")
        return
    print_table(HEADS, [tuple(row.values()) for row in rows])
    for line in _summary(rules, tally):
        on_stderr(line)


def _history(socket: Path | None) -> tuple[list[_Asked], dict[tuple[str, str, int], dict[str, Any]]]:
    """Return the requests, and the response to each, by its stream, id and `seq`."""
    asked: list[_Asked] = []
    said: dict[tuple[str, str, int], dict[str, Any]] = {}
    latest: dict[tuple[str, str], int] = {}
    calls: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
    for event in _events(socket):
        stream = event["stream"]
        if event["kind"] == "tool-call":
            calls[stream, event["callId"]] = event.get("input") or {}
            if len(calls) > MOST_CALLS:
                calls.popitem(last=False)
        elif event["kind"] == "permission-request":
            if event["type"] == "permission":
                latest[stream, event["permissionId"]] = event["seq"]
                asked.append(_Asked(event, calls.get((stream, event.get("callId", "")))))
        elif (seq := latest.get((stream, event["permissionId"]))) is not None:
            said[stream, event["permissionId"], seq] = event
    return asked, said


def _events(socket: Path | None) -> Iterator[dict[str, Any]]:
    import orjson

    from tooltap.daemon.client.blocking import BlockingSubscription
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.frames import Subscribe

    frame = Subscribe(after="start", filter=Filter(kind=KINDS), follow=False)
    with daemon_errors(), closing(BlockingSubscription(socket, frame, False, waiting())) as subscription:
        for item in subscription:
            if isinstance(item, bytes):
                yield orjson.loads(item)


def _row(one: _Asked, decision: Decision, answered: dict[str, Any]) -> dict[str, Any]:
    from tooltap.daemon.answers.rules import texts_of

    event = one.event
    by = answered.get("by")
    return {
        "seq": event["seq"],
        "agent": event["provider"],
        "session": event["session"],
        "tool": event.get("name"),
        "asked": " ".join(texts_of(event, one.call)) or None,
        "answer": decision.answer,
        "rule": ", ".join(rule.name for rule in decision.rules) or None,
        "said": f"{answered['outcome']} by {by}" if by else answered.get("outcome"),
    }


def _summary(rules: Sequence[AnswerRule], tally: Counter[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a line for each rule: how often it would have decided, and what was said then."""
    for rule in rules:
        said = {outcome: number for (name, _, outcome), number in tally.items() if name == rule.name}
        listed = ", ".join(f"{outcome} {number:,}" for outcome, number in sorted(said.items()))
        yield f"{short(rule.name)}: {rule.answer} {sum(said.values()):,}" + (f" (then: {listed})" if listed else "")
