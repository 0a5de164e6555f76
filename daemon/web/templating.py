"""The templates of the page (`daemon/web/templates`), which may use those of `daemon/show`."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from tooltap.daemon.show.markup import environment


def template(name: str, **values: Any) -> Markup:
    """Render a template."""
    return Markup(_environment().get_template(name).render(**values))


def compile_templates() -> None:
    """Compile all templates, so that the first reader does not wait for it."""
    for name in _environment().list_templates():
        _environment().get_template(name)


@cache
def _environment() -> Environment:
    return environment("tooltap.daemon.web", "tooltap.daemon.show")
