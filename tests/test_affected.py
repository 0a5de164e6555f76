"""Which tests a change touches."""

from __future__ import annotations

import pytest

from tests.affected import ROOT, affected, modules


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("tests/test_affected.py", "tests/test_affected.py"),
        ("tests/affected.py", "tests/test_affected.py"),
        ("protocol/tools.py", "tests/protocol/test_tools.py"),
        ("normalizers/core/calls.py", "tests/normalizers/dialects/claude/test_claude_stream.py"),
        ("cli/read/top.py", "tests/cli/read/test_top.py"),
        ("docs/index.md", "tests/docs/test_links.py"),
        ("tests/fixtures/acp/new.jsonl", "tests/normalizers/stream/test_contract.py"),
    ],
)
def test_change_leads_to_its_tests(changed: str, test: str) -> None:
    assert (ROOT / test).exists()
    assert test in affected([changed])


def test_a_command_of_the_terminal_touches_no_dialect() -> None:
    assert not [test for test in affected(["cli/read/top.py"]) if test.startswith("tests/normalizers/")]


def test_every_module_of_the_tree_is_known() -> None:
    assert {"tooltap.cli.main", "tooltap.protocol.tools", "tests.affected"} <= modules().keys()
