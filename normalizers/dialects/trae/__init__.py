"""Trae Agent: the trajectories that its command `trae-cli` writes."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect


def _is_trajectory(value: dict[str, Any]) -> bool:
    """Rule for `trae-trajectory`. A document may extend over many lines, so that its first lines must be enough."""
    return value.keys() >= {"task", "start_time", "end_time", "max_steps"}


PRODUCT = "Trae Agent"

DIALECTS = (
    Dialect(
        "trae-trajectory",
        "parser:TraeTrajectory",
        _is_trajectory,
        reads="Trae Agent's trajectories",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams blocks",
        omits="reasoning, permission requests, cost; the session's id, the folder, exit codes, what the model saw of a "
        "result, and the zone of its times, which are taken for UTC",
        unproven="everything: shapes from Trae Agent's source, 0.1",
    ),
)

AGENTS = (Agent("trae-cli", (), None, provider="trae-agent"),)
