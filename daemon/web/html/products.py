"""The names of agents as their users know them; addresses and filters have the provider's id."""

from __future__ import annotations

from tooltap.daemon.system.sanitize import visible
from tooltap.daemon.web.html.look import brief
from tooltap.normalizers.catalog.registry import product_names


def product(provider: str) -> str:
    """Return the name of an agent; of one that tooltap does not know, its id."""
    return product_names().get(provider) or visible(brief(provider))
