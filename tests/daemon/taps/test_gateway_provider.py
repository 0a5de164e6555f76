"""Which provider the events of a conversation name."""

from __future__ import annotations

import httpx
import pytest

from tooltap.daemon.taps.gateway.conversations import agent_of, provider_of


@pytest.mark.parametrize(
    ("upstream", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://API.DeepSeek.com.", "deepseek"),
        ("https://api.x.ai/v1", "xai"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "google"),
        ("https://my.openai.azure.com/openai/deployments/x", "azure"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "alibaba"),
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("http://localhost:1234/v1", "lmstudio"),
        ("http://[::1]:11434/v1", "ollama"),
        ("http://vllm:8000/v1", "vllm"),
        ("http://box:11434/v1", "ollama"),
    ],
)
def test_server(upstream: str, provider: str) -> None:
    assert provider_of(httpx.URL(upstream), "qwen3-coder") == provider


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-5.5", "openai"),
        ("claude-opus-5-5", "anthropic"),
        ("qwen3-coder-plus", "alibaba"),
        ("Qwen/Qwen3-32B", "alibaba"),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta"),
        ("models/gemini-2.5-pro", "google"),
        ("kimi-k2", "moonshot"),
        ("gptq", None),
        ("fake-model", None),
        ("", None),
        (None, None),
        ({"a": 1}, None),
    ],
)
def test_model_on_a_server_without_a_name(model: object, provider: str | None) -> None:
    assert provider_of(httpx.URL("http://127.0.0.1:8000/v1"), model) == provider


@pytest.mark.parametrize(
    ("user_agent", "agent"),
    [
        ("claude-cli/2.1.332 (external, sdk-cli)", "claude"),
        ("GeminiCLI-tui/0.61.0/gemini-2.5-flash (linux; x64; terminal)", "gemini"),
        ("codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm", "codex"),
        ("QwenCode/0.24.4 (linux; x64)", "qwen"),
        ("OpenAI/Python 2.9.0", None),
        ("Mozilla/5.0 claude-cli", None),
        ("", None),
    ],
)
def test_client_that_says_what_it_is(user_agent: str, agent: str | None) -> None:
    assert agent_of(user_agent) == agent
