"""The names of agents as their users know them; addresses and filters have the provider's id."""

from __future__ import annotations

from tooltap.daemon.system.sanitize import visible
from tooltap.daemon.web.html.look import brief

__all__ = ["product"]

_PRODUCTS = {
    "claude": "Claude Code",
    "cline": "Cline",
    "codex": "Codex",
    "continue": "Continue",
    "copilot": "Copilot CLI",
    "cursor": "Cursor",
    "droid": "Droid",
    "gemini": "Gemini CLI",
    "kimi": "Kimi",
    "openai": "OpenAI",
    "opencode": "OpenCode",
    "pi": "Pi",
    "qwen": "Qwen Code",
    "vibe": "Mistral Vibe",
}


def product(provider: str) -> str:
    """Return the name of an agent; of one that is not known here, its id."""
    return _PRODUCTS.get(provider) or visible(brief(provider))
