"""mini-swe-agent: the trajectories that its command `mini` writes."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect
from tooltap.normalizers.wire.values import record


def _is_trajectory(value: dict[str, Any]) -> bool:
    """Rule for `mini-trajectory`. The document is printed over hundreds of lines, of which the first ones must tell:
    they have the agent's class, later ones its version."""
    info = record(value.get("info"))
    agent = record(info.get("config")).get("agent_type")
    return isinstance(info.get("mini_version"), str) or str(agent).startswith("minisweagent.")


PRODUCT = "mini-swe-agent"

DIALECTS = (
    Dialect(
        "mini-trajectory",
        "parser:MiniTrajectory",
        _is_trajectory,
        reads="mini-swe-agent's trajectories",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams blocks",
        omits="permission requests; the session's id and title, and the prompt's time",
        unproven="reasoning, cost, several calls in an answer, commands without an exit code, submissions, "
        "trajectories that grow",
    ),
)

AGENTS = (Agent("mini", (), None, provider="mini-swe-agent", package="mini-swe-agent"),)
