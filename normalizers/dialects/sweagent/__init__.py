"""SWE-agent: the trajectories that it writes."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect
from tooltap.normalizers.wire.values import record, records


def _is_trajectory(value: dict[str, Any]) -> bool:
    """Rule for `swe-agent`. The document is printed over hundreds of lines, of which the first ones must tell: they are
    the first step's, or if there is none yet, the last ones of the document."""
    steps = records(value.get("trajectory"))
    if steps:
        return steps[0].keys() >= {"action", "observation"}
    return isinstance(record(value.get("info")).get("swe_agent_version"), str)


PRODUCT = "SWE-agent"

DIALECTS = (
    Dialect(
        "swe-agent",
        "parser:SweAgent",
        _is_trajectory,
        reads="SWE-agent's trajectories (`.traj`)",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams blocks",
        omits="permission requests; times, the session's id, and how a command has ended",
        unproven="everything: shapes from SWE-agent's source, 1.1",
    ),
)
