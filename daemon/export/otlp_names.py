"""Names of metrics, and of the attributes of spans and metrics: those of the OpenTelemetry GenAI conventions, in the
version below, and our own.

The conventions are in development (https://github.com/open-telemetry/semantic-conventions-genai): a new version may
rename them, and is taken here, and in the tables of `docs/how-to/opentelemetry.md`.
"""

from __future__ import annotations

from enum import StrEnum

CONVENTIONS = "semantic-conventions-genai 0.1.0"


class Name(StrEnum):
    """Names of attributes, in the order in which the documentation lists them."""

    OPERATION = "gen_ai.operation.name"
    CONVERSATION = "gen_ai.conversation.id"
    AGENT = "gen_ai.agent.name"
    PROVIDER = "gen_ai.provider.name"
    MODEL = "gen_ai.request.model"
    RESPONSE_MODEL = "gen_ai.response.model"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
    TOOL = "gen_ai.tool.name"
    CALL = "gen_ai.tool.call.id"
    SKILL = "gen_ai.skill.name"
    EXIT_CODE = "process.exit.code"
    ERROR = "error.type"

    INPUT_MESSAGES = "gen_ai.input.messages"
    OUTPUT_MESSAGES = "gen_ai.output.messages"
    ARGUMENTS = "gen_ai.tool.call.arguments"
    RESULT = "gen_ai.tool.call.result"

    OUTCOME = "tooltap.outcome"
    WAIT = "tooltap.wait_ms"
    COST = "tooltap.cost_usd"
    FAMILY = "tooltap.tool.family"
    SUBAGENT = "tooltap.subagent"
    UNFINISHED = "tooltap.unfinished"

    SERVICE = "service.name"
    VERSION = "service.version"
    HOST = "host.name"
    PROJECT = "tooltap.project"
    NOTES = "tooltap.notes"

    VERSION_OF_NAMES = "tooltap.conventions"

    MODALITY = "gen_ai.token.modality"
    OVERFLOW = "otel.metric.overflow"


class Metric(StrEnum):
    """Names of metrics, in the order in which the documentation lists them."""

    INPUT_TOKENS = "gen_ai.client.inference.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.client.inference.usage.output_tokens"
    CACHE_READ_TOKENS = "gen_ai.client.inference.usage.cache_read.input_tokens"
    CACHE_WRITE_TOKENS = "gen_ai.client.inference.usage.cache_write.input_tokens"
    REASONING_TOKENS = "gen_ai.client.inference.usage.reasoning.output_tokens"
    COST = "tooltap.cost"
    REQUEST_DURATION = "gen_ai.client.inference.duration"
    TURN_DURATION = "gen_ai.invoke_agent.duration"
    CALL_DURATION = "gen_ai.execute_tool.duration"
    WAITING_SESSIONS = "tooltap.waiting.sessions"
    WAITING_QUESTIONS = "tooltap.waiting.questions"


CONTENT = frozenset((Name.INPUT_MESSAGES, Name.OUTPUT_MESSAGES, Name.ARGUMENTS, Name.RESULT))
"""What an agent and its user said and did: only on request."""

PROVIDERS = {
    "claude": "anthropic",
    "codestral": "mistral_ai",
    "command-r": "cohere",
    "deepseek": "deepseek",
    "devstral": "mistral_ai",
    "gemini": "gcp.gemini",
    "gpt": "openai",
    "grok": "x_ai",
    "kimi": "moonshot_ai",
    "magistral": "mistral_ai",
    "mistral": "mistral_ai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "sonar": "perplexity",
}
"""Beginning of a model's name -> the provider that the conventions know."""


def provider_of(model: str | None, agent: str) -> str:
    """Return the provider of a model: the value that the conventions have for it, else what the model's name states
    before a slash, else the agent."""
    if model is None:
        return agent
    stated, slash, name = model.lower().rpartition("/")
    known = next((provider for beginning, provider in PROVIDERS.items() if name.startswith(beginning)), None)
    return known or (stated if slash else agent)
