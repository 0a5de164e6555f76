"""Each canonical tool has one row, which says everything of it; its family is what pages and commands count."""

from __future__ import annotations

import pytest

from tooltap.normalizers.tools.names import TOOL_NAMES
from tooltap.normalizers.tools.registry import FAMILIES, KNOWN_TOOLS, PASS_THROUGH, REGISTRY, Tool, family_of, names_in
from tooltap.protocol.tools import TOOLS

FAMILY_BY_DECISION = {
    "shell": "Bash BashOutput KillShell Monitor",
    "read": "LS Read",
    "edit": "Delete Diff Edit MultiEdit NotebookEdit Patch Write",
    "search": "CodeSearch Glob Grep LSP ToolSearch",
    "web": "WebFetch WebSearch",
    "task": "CronCreate CronDelete CronList ListAgents ScheduleWakeup SendMessage Skill SlashCommand Task TaskOutput"
    " TaskStop Workflow",
    "plan": "AskUserQuestion EnterPlanMode ExitPlanMode Reasoning TodoRead TodoWrite",
    "mcp": "ListMcpResources ReadMcpResource",
    "other": "AcpHistoryImport Artifact EnterWorktree ExitWorktree ReportFindings WorkspaceIndexingPermission"
    " change_title",
}


def test_each_canonical_tool_has_a_family_by_decision() -> None:
    decided = {name: family for family, names in FAMILY_BY_DECISION.items() for name in names.split()}

    assert {name: tool.family for name, tool in REGISTRY.items()} == decided
    assert tuple(FAMILY_BY_DECISION) == FAMILIES


def test_a_row_has_no_default_family() -> None:
    with pytest.raises(TypeError):
        Tool("Screenshot")  # type: ignore[call-arg]


def test_each_tool_with_types_has_a_row() -> None:
    assert set(TOOLS) == {name for name, tool in REGISTRY.items() if tool.types is not None}
    assert len(REGISTRY) == len(KNOWN_TOOLS)


def test_no_spelling_means_two_tools() -> None:
    spellings = [raw for tool in REGISTRY.values() for raw in tool.spellings.split()]

    assert len(spellings) == len(set(spellings))
    assert len(TOOL_NAMES) <= len(spellings)


@pytest.mark.parametrize(
    ("name", "family"),
    [(None, "other"), ("mcp__a__b", "mcp"), ("no_such_tool", "other"), ("write_stdin", "shell"), ("cron", "task")],
)
def test_names_of_providers_have_families(name: str | None, family: str) -> None:
    assert family_of(name) == family


@pytest.mark.parametrize("family", FAMILIES)
def test_names_in_a_family(family: str) -> None:
    names = [name for name in (*KNOWN_TOOLS, *PASS_THROUGH) if family_of(name) == family]

    assert sorted(names_in(family)) == sorted(names)  # type: ignore[arg-type]
