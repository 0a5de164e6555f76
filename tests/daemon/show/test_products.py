"""The names of agents on pages."""

from __future__ import annotations

import pytest

from tooltap.daemon.show.markup import product
from tooltap.normalizers.catalog.registry import agents, product_names


@pytest.mark.parametrize(
    ("provider", "name"),
    [("claude", "Claude Code"), ("continue", "Continue"), ("cursor", "Cursor"), ("openai", "OpenAI")],
)
def test_agent_has_the_name_of_its_product(provider: str, name: str) -> None:
    assert product(provider) == name


@pytest.mark.parametrize("provider", sorted({agent.provider or agent.command for agent in agents().values()}))
def test_every_agent_has_a_name(provider: str) -> None:
    assert product(provider) == product_names()[provider]


@pytest.mark.parametrize("provider", ["my-agent", "acp"])
def test_agent_without_a_product_is_shown_by_its_id(provider: str) -> None:
    assert product(provider) == provider
