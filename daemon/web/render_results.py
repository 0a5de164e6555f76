"""The body of a result: what the user sees of it, which a rule or the provider may have decided; and of an update."""

from __future__ import annotations

from markupsafe import Markup

from tooltap.daemon.web.look import Look
from tooltap.daemon.web.tools import output_body
from tooltap.protocol.events import ToolResult, ToolUpdate

__all__ = ["result_body", "result_facts", "update_body"]


def result_facts(event: ToolResult) -> tuple[str, ...]:
    """For the header."""
    code = event.output.get("exit_code")
    facts = [f"exit {code}"] if isinstance(code, int) else []
    if event.duration_ms is not None:
        facts.append(f"{event.duration_ms / 1000:.1f} s")
    if event.async_:
        facts.append("goes on in the background")
    return tuple(facts)


def result_body(event: ToolResult, look: Look) -> Markup:
    if event.silent:
        return Markup()
    return output_body(event.name, event.output, look)


def update_body(event: ToolUpdate, look: Look) -> Markup:
    return Markup()
