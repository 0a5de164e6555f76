"""The daemon's statistics for Prometheus: the answer of `stats` in text format 0.0.4.

No label has a value from outside (a session, a stream, a tool), because the number of such values is unbounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4"

Labels = dict[str, str]


class Metric(NamedTuple):
    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: list[tuple[Labels, float]]


def exposition(statistics: dict[str, Any], going_on: Mapping[str, int]) -> str:
    """`going_on`: status -> number of sessions that run or wait; empty if they cannot be counted."""
    return "".join(line + "\n" for metric in _metrics(statistics, going_on) for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    name = f"tooltap_{metric.name}"
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for labels, value in metric.samples:
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        yield f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _metrics(statistics: dict[str, Any], going_on: Mapping[str, int]) -> Iterable[Metric]:
    yield Metric("info", "gauge", "The daemon.", [({"version": statistics["version"]}, 1)])
    for group, table in _FIGURES.items():
        figures = statistics.get(group) if group else statistics
        for key, (name, kind, words, factor) in table.items():
            if figures is not None and key in figures:
                yield Metric(name, kind, words, [({}, figures[key] * factor)])
    streams = [({"state": state}, number) for state, number in statistics["streams"].items()]
    yield Metric("streams", "gauge", "Streams that the journal knows, by state.", streams)
    sessions: list[tuple[Labels, float]] = [({"status": status}, number) for status, number in going_on.items()]
    yield Metric("sessions", "gauge", "Sessions that run or wait for a person, by status.", sessions)
    subscribers = statistics["subscribers"]
    yield Metric("subscribers", "gauge", "Subscriptions.", [({}, len(subscribers))])
    behind = sum(one["behind"] for one in subscribers)
    yield Metric("subscribers_behind", "gauge", "Subscriptions that are served from the journal.", [({}, behind)])
    if (web := statistics.get("web")) is not None:
        answers = [({"code": status}, number) for status, number in web["answers"].items()]
        yield Metric("web_answers_total", "counter", "Answers to browsers, by status.", answers)
    longest = statistics["loop"]["longest"]
    seconds = 0 if longest is None else longest["ms"] / 1000
    yield Metric("loop_longest_stall_seconds", "gauge", "The longest time without a reply.", [({}, seconds)])
    findings = len(statistics["drift"]["findings"])
    yield Metric("drift_findings", "gauge", "Unexpected changes in what agents print.", [({}, findings)])


_FIGURES: dict[str, dict[str, tuple[str, Literal["counter", "gauge"], str, float]]] = {
    "": {
        "uptimeMs": ("uptime_seconds", "gauge", "Since the daemon started.", 0.001),
    },
    "journal": {
        "events": ("journal_events_total", "counter", "Events journaled since the daemon started.", 1),
        "commits": ("journal_commits_total", "counter", "Commits since the daemon started.", 1),
        "transactions": ("journal_transactions_total", "counter", "Transactions since the daemon started.", 1),
        "reads": ("journal_reads_total", "counter", "Reads of events since the daemon started.", 1),
        "bytes": ("journal_bytes", "gauge", "Length of the journal.", 1),
        "oldest": ("journal_oldest_seq", "gauge", "The oldest event kept.", 1),
        "latest": ("journal_latest_seq", "gauge", "The newest event.", 1),
        "expired": ("journal_expired_seq", "gauge", "The newest event that retention has deleted.", 1),
        "corrupt": ("journal_corrupt_events", "gauge", "Events found damaged.", 1),
        "lost": ("journal_lost_events", "gauge", "Events that the journal records as lost.", 1),
        "damages": ("journal_damages", "gauge", "Parts of the journal found damaged, besides events.", 1),
        "damagedSessions": ("journal_damaged_sessions", "gauge", "Rows of sessions among these.", 1),
        "scrubs": ("journal_scrubs_total", "counter", "Verifications of the journal since the daemon started.", 1),
        "scrubbedAt": ("journal_scrubbed_timestamp_seconds", "gauge", "When the last one ended.", 0.001),
        "scrubbedRows": ("journal_scrubbed_rows", "gauge", "Rows that the last one, or the running one, verified.", 1),
        "scrubbing": ("journal_scrubbing", "gauge", "1 while the journal is verified.", 1),
        "connected": ("journal_connected", "gauge", "1 while the journal's server can be reached.", 1),
    },
    "connections": {
        "open": ("connections", "gauge", "Connections to the socket.", 1),
        "publishing": ("publishers", "gauge", "Streams that are being published.", 1),
    },
    "loop": {
        "stalls": ("loop_stalls_total", "counter", "How often the event loop was blocked for too long.", 1),
    },
    "log": {
        "leftOut": ("log_lines_left_out_total", "counter", "Log lines dropped because nobody read them.", 1),
    },
    "outputs": {
        "kept": ("outputs", "gauge", "Display outputs in memory.", 1),
        "bytes": ("outputs_bytes", "gauge", "Length of the display outputs in memory.", 1),
        "stored": ("outputs_stored_total", "counter", "Display outputs taken in.", 1),
        "expired": ("outputs_expired_total", "counter", "Display outputs that were too old.", 1),
        "evicted": ("outputs_evicted_total", "counter", "Display outputs dropped to make room for others.", 1),
    },
    "web": {
        "connections": ("web_connections", "gauge", "Connections of browsers.", 1),
        "feeds": ("web_feeds", "gauge", "Connections of browsers that are sent events as they come.", 1),
    },
}
"""Part of the statistics -> key in it -> name, kind, help, and factor of the metric."""
