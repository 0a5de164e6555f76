"""ATIF: trajectories of agents in the interchange format of Harbor."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect


def _is_trajectory(value: dict[str, Any]) -> bool:
    """Rule for `atif`. A document may extend over many lines, so that its first lines must be enough."""
    return str(value.get("schema_version")).startswith("ATIF-v")


PRODUCT = "ATIF"

DIALECTS = (
    Dialect(
        "atif",
        "parser:Atif",
        _is_trajectory,
        reads="trajectories in the Agent Trajectory Interchange Format (ATIF)",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams blocks",
        omits="permission requests; whether a tool failed, the folder, and the title",
        unproven="everything: the shape is that of the specification and of the package `atif`, 1.8",
    ),
)
