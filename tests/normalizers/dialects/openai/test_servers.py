"""Recordings of servers that people run themselves: the same task, in both of OpenAI's APIs.

llama.cpp's server (of `xllamacpp` 2026.10) had a model of random weights, whose words a grammar chose. Its Responses
API states neither the model at the beginning nor the index of an item.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.normalizers.reading import answer, of
from tooltap.protocol.events import Event, Message, SessionEvent, ToolCall, ToolResult, Usage
from tooltap.testing import check_recording, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures"

FIGURES = {
    "openai-chat/llamacpp-2026.10/whole": [(534, 81, 0), (214, 14, 0), (258, 6, 215)],
    "openai-chat/llamacpp-2026.10/streamed": [(533, 82, 515), (213, 14, 60)],
    "openai-responses/llamacpp-2026.10/whole": [(534, 70, 515), (214, 14, 213)],
    "openai-responses/llamacpp-2026.10/streamed": [(533, 70, 515), (213, 14, 212)],
}
"""Recording -> tokens in, out and from the cache of each request."""


def recorded(name: str) -> list[Event]:
    dialect = name.partition("/")[0]
    return check_recording(dialect, read_recording((FIXTURES / f"{name}.jsonl").read_bytes()))


@pytest.mark.parametrize("name", FIGURES)
def test_file_is_read_and_described(name: str) -> None:
    found = recorded(name)

    (call,), (done,) = of(ToolCall, found), of(ToolResult, found)
    assert (call.name, done.name, done.status) == ("Read", "Read", "completed")
    assert answer(done.output) == {"file": {"content": "print('hi')\n"}}
    said = [(one.role, one.text) for one in of(Message, found)]
    assert said[:2] == [("user", "What is in src/app.py?"), ("assistant", "It prints hi.")]
    assert said[2:] == ([("user", "Thanks"), ("assistant", "You ar")] if len(FIGURES[name]) > 2 else [])


@pytest.mark.parametrize(("name", "figures"), FIGURES.items(), ids=FIGURES)
def test_tokens_and_model(name: str, figures: list[tuple[int, int, int]]) -> None:
    found = recorded(name)

    assert [(one.input_tokens, one.output_tokens, one.cache_read_tokens) for one in of(Usage, found)] == figures
    assert [one.model for one in of(SessionEvent, found)] == ["tiny.gguf"]


LITELLM = b"""{"dir":"in","line":{"model":"tiny","stream":true,"stream_options":{"include_usage":true},"messages":[\
{"role":"user","content":"What is in src/app.py?"}]}}
{"dir":"reply","line":"data: {\\"id\\":\\"chatcmpl-9f\\",\\"created\\":1795853658,\\"model\\":\\"tiny\\",\
\\"object\\":\\"chat.completion.chunk\\",\\"choices\\":[{\\"index\\":0,\\"delta\\":{\\"role\\":\\"assistant\\",\
\\"tool_calls\\":[{\\"id\\":\\"chatcmpl-tool-7c\\",\\"function\\":{\\"arguments\\":\\"\\",\\"name\\":\\"read\\"},\
\\"type\\":\\"function\\",\\"index\\":0}]}}]}"}
{"dir":"reply","line":"data: {\\"id\\":\\"chatcmpl-9f\\",\\"created\\":1795853658,\\"model\\":\\"tiny\\",\
\\"object\\":\\"chat.completion.chunk\\",\\"choices\\":[{\\"index\\":0,\\"delta\\":{\\"tool_calls\\":[{\
\\"function\\":{\\"arguments\\":\\"{\\\\\\"path\\\\\\": \\\\\\"src/app.py\\\\\\"}\\"},\\"type\\":\\"function\\",\
\\"index\\":0}]}}]}"}
{"dir":"reply","line":"data: {\\"id\\":\\"chatcmpl-9f\\",\\"object\\":\\"chat.completion.chunk\\",\
\\"created\\":1795853658,\
\\"model\\":\\"tiny\\",\\"choices\\":[{\\"index\\":0,\\"delta\\":{},\\"finish_reason\\":\\"tool_calls\\"}]}"}
{"dir":"reply","line":"data: {\\"id\\":\\"chatcmpl-9f\\",\\"created\\":1795853658,\\"model\\":\\"tiny\\",\
\\"object\\":\\"chat.completion.chunk\\",\\"choices\\":[{\\"index\\":0,\\"delta\\":{}}],\\"usage\\":{\
\\"completion_tokens\\":12,\\"prompt_tokens\\":40,\\"total_tokens\\":52}}"}
{"dir":"reply","line":"data: [DONE]"}
"""


def test_stream_of_litellm() -> None:
    """LiteLLM's proxy (1.108.7) in front of a scripted server, shortened: the arguments came in two chunks. Each part
    of a call has its type, and a chunk with an empty delta states the usage after the one that states the end."""
    found = check_recording("openai-chat", read_recording(LITELLM))

    [call] = of(ToolCall, found)
    assert (call.call_id, call.name, call.input["path"]) == ("chatcmpl-tool-7c", "Read", "src/app.py")
    assert [(one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [(40, 12)]
