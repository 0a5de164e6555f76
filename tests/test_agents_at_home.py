"""An agent is one folder: outside of `normalizers/dialects`, no module of the product names one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_layout import FOLDERS, ROOT
from tooltap.normalizers.catalog import registry
from tooltap.normalizers.catalog.registry import agents, builtin, product_names

HOME = ROOT / "normalizers" / "dialects"
WORDS = {"amp", "code", "continue", "cursor", "q", "vscode"}
"""Ids of agents that mean something else as well. Their products, commands and dialects are found."""
SHOWN = {"epilog", "examples", "help", "metavar", "short_help"}
"""Arguments that are help for users, where an agent may be an example."""

EXCEPTIONS = {
    "cli/manage/demo.py": "plays the recordings of four agents",
    "cli/read/tail.py": "examples in the help of an option",
    "cli/tap/attach.py": "its command for an agent, with help of its own, which looks up the server in the catalog",
    "cli/manage/hooks.py": "the agents with hooks, as choices of an argument, which help shows without the catalog",
    "cli/tap/hook.py": "the agent whose hook it is if none is named",
    "daemon/taps/hooks/run.py": "how agents run hooks: an agent waits for it, so it does not look up the catalog",
    "daemon/export/otlp_names.py": "beginnings of the names of models",
    "daemon/sessions/row.py": "the words that an extension of an editor writes before a prompt",
    "daemon/taps/gateway/conversations.py": "names of models",
    "daemon/sessions/prices.py": "makers of models, and routes to them",
    "normalizers/tools/names.py": "providers' spellings of tools, which are facts of a tool",
    "normalizers/tools/outcome.py": "sentences in the place of a result, with the agents that they were seen in",
    "normalizers/tools/registry.py": "providers' spellings of tools, which are facts of a tool",
}
"""Module -> why it names an agent."""


def names() -> set[str]:
    """Ids, commands, products and dialects of all agents."""
    found: set[str] = set()
    for agent in agents().values():
        provider = agent.provider or agent.command
        found |= {agent.command, provider, product_names()[provider]}
        if agent.store is not None:
            found.add(agent.store.variable)
    families = [family for family in registry._families() if hasattr(family, "AGENTS")]
    found |= {one.name for family in families for one in family.DIALECTS}
    assert found & builtin().keys()
    return {name for name in found if not name.startswith("XDG_")} - WORDS - {""}


NAMED = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(map(re.escape, names()), key=len, reverse=True))})(?![\w-])")


def named_in(source: str) -> set[str]:
    """The agents that the strings of a module name, outside of docstrings and help."""
    found: set[str] = set()
    for text in _strings(ast.parse(source)):
        found.update(NAMED.findall(text if isinstance(text, str) else text.decode("latin-1")))
    return found


def _strings(tree: ast.AST) -> Iterator[str | bytes]:
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):  # also the comment below an attribute
        return
    if isinstance(tree, ast.keyword) and tree.arg in SHOWN:
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str | bytes):
        yield tree.value
    for child in ast.iter_child_nodes(tree):
        yield from _strings(child)


def modules() -> list[Path]:
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in paths if not path.is_relative_to(HOME)]


def test_no_module_names_an_agent() -> None:
    named = {str(path.relative_to(ROOT)): named_in(path.read_text()) for path in modules()}

    assert {name: found for name, found in named.items() if found and name not in EXCEPTIONS} == {}
    assert {name for name in EXCEPTIONS if not named.get(name)} == set(), "exceptions that are none any more"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('PRODUCTS = {"claude": 1}', {"claude"}),
        ('FILES = {"codex-rollout"}', {"codex-rollout"}),
        ('f"not attached to OpenCode: {why}"', {"OpenCode"}),
        ('VARIABLES = ("CODEX_HOME",)', {"CODEX_HOME"}),
        ('BEGIN = b"cline"', {"cline"}),
        ('NEXT = "cursor"', set()),
        ('"""Reads what claude prints."""', set()),
        ('option("--agent", help="An agent, such as claude.")', set()),
        ('NAME = "claudette"', set()),
    ],
)
def test_names_are_found(source: str, found: set[str]) -> None:
    assert named_in(source) == found
