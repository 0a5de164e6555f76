"""A payload nobody knows the form of, as a tree of its keys."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tooltap.daemon.web.look import Look
from tooltap.daemon.web.markup import template

__all__ = ["any_input", "any_output", "tree"]

OURS = ("_happy", "_raw", "_acp")


def any_input(payload: dict[str, Any], look: Look) -> Markup:
    return tree(payload, look)


def any_output(payload: dict[str, Any], look: Look) -> Markup:
    return tree(payload, look)


def tree(value: dict[str, Any], look: Look) -> Markup:
    """Nothing for an empty one."""
    shown = {key: one for key, one in value.items() if key not in OURS}
    return template("tree.html", value=shown, look=look) if shown else Markup()
