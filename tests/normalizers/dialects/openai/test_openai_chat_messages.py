"""The `openai-chat` dialect: what hosts put into messages, results and answers."""

from typing import Any

import msgspec
import orjson
import pytest

from tests.normalizers.dialects.openai.chatting import (
    chat,
    chunk,
    completion,
    read_chat,
    request,
    result,
    shell,
    use,
    user,
)
from tests.normalizers.reading import answer, lines_of, of, outline, statistics
from tooltap.normalizers.catalog.registry import recognise
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Message, Reasoning, ToolCall, ToolResult, Turn, Usage
from tooltap.protocol.model_view import model_blocks, model_text
from tooltap.testing import Line, normalize


def test_picture_in_a_result_is_attached() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    found = read_chat(request(user("Go."), shell("c", "ls"), {**result("c"), "content": [picture]}))

    (answered,) = of(ToolResult, found)
    assert answered.attachments is not None
    assert [(one.mime_type, one.bytes) for one in answered.attachments] == [("image/png", 8)]


@pytest.mark.parametrize(
    ("text", "stdout"),
    [
        pytest.param("Exit code 3\nboom\n", "boom\n", id="claude-code"),
        pytest.param("[Command exited with code 3]\nboom", "boom", id="cline"),
        pytest.param("<system>ERROR: Command failed with exit code: 3.</system>\nboom", "boom", id="kimi"),
        pytest.param("boom\n\nCommand exited with code 3", "boom", id="pi"),
        pytest.param("boom\n<shellId: 0 completed with exit code 3>", "boom\n", id="copilot"),
        pytest.param("Output: boom\nExit Code: 3\nProcess Group PGID: 7", "boom", id="gemini"),
        pytest.param("Exit code: 3\nWall time: 0.1 seconds\nOutput:\nboom", "boom", id="codex"),
        pytest.param('{"output":"boom","metadata":{"exit_code":3}}', "boom", id="codex-json"),
        pytest.param('{"stdout":"boom","exit_code":3}', "boom", id="object"),
    ],
)
def test_exit_code_in_the_text_of_a_shell(text: str, stdout: str) -> None:
    (answered,) = of(ToolResult, read_chat(request(user("Go."), shell("c", "false"), result("c", text))))

    assert (answered.status, answered.output["stdout"], answered.output["exit_code"]) == ("failed", stdout, 3)


@pytest.mark.parametrize("text", ['{"a": 1}', '{"exit_code": 3}', "Output: x", "it said: exit code 3", "unsupported"])
def test_what_a_command_prints_states_no_exit_code(text: str) -> None:
    (answered,) = of(ToolResult, read_chat(request(user("Go."), shell("c", "x"), result("c", text))))

    assert (answered.status, answer(answered.output)) == ("completed", {"stdout": text})


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ({"content": "boom", "status": "error"}, "failed"),
        ({"content": "boom", "is_error": True}, "failed"),
        ({"content": '{"success": false, "message": "boom"}'}, "failed"),
        ({"content": '{"status": "failed", "job": "boom"}'}, "completed"),
        ({"content": "boom", "status": "success"}, "completed"),
    ],
)
def test_flag_of_a_result_decides_its_status(message: dict[str, Any], status: str) -> None:
    called = {"role": "assistant", "tool_calls": [use("c")]}
    (answered,) = of(ToolResult, read_chat(request(user("Go."), called, {**result("c"), **message})))

    assert (answered.status, "boom" in str(answer(answered.output))) == (status, True)


def test_model_saw_the_content_of_a_result() -> None:
    text = "Exit code 3\n" + "boom\n" * 50
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    shown = {**result("d"), "content": [{"type": "text", "text": "a picture"}, picture]}
    found = read_chat(request(user("Go."), shell("c", "false"), result("c", text), shell("d", "x"), shown))

    first, second = (msgspec.to_builtins(one) for one in of(ToolResult, found))
    assert model_text(first, lambda _: None) == text
    assert [block["type"] for block in model_blocks(second, lambda _: None) or []] == ["text", "image_url"]
    assert second["modelView"]["blocks"][1]["outputId"] == second["attachments"][0]["outputId"]


def test_history_says_how_its_turns_ended() -> None:
    history = [user("Go."), {"role": "assistant", "content": "Done."}, user("And?"), shell("c", "ls"), result("c", "1")]
    found = of(Turn, read_chat({"messages": history}))

    assert [(turn.state, turn.ended_by) for turn in found] == [
        ("started", None),
        ("completed", "answer"),
        ("started", None),
        ("cancelled", "eof"),
    ]


def test_provider_is_the_one_that_the_stream_names() -> None:
    """OpenRouter."""
    found = read_chat(request(user("Go.")), completion({"content": "Done."}, provider="Amazon Bedrock"))

    assert found[-1].provider == "amazon-bedrock"


def test_legacy_function_call_without_id() -> None:
    legacy = {"content": None, "function_call": {"name": "look", "arguments": "None"}}
    found = read_chat(
        request(user("Go.")),
        completion(legacy, "function_call"),
        request(user("Go."), {"role": "assistant", **legacy}, {"role": "function", "name": "look", "content": "x"}),
    )

    assert [(one.call_id, one.name, answer(one.input)) for one in of(ToolCall, found)] == [("call-1", "look", {})]
    assert [(one.call_id, one.output["value"]) for one in of(ToolResult, found)] == [("call-1", "x")]


def test_agent_tools_have_canonical_names() -> None:
    """Both calls have the id `call_1` on the wire. The first result names its call in a list."""
    found = chat("agent")

    assert [(one.call_id, one.name) for one in of(ToolCall, found)] == [("call_1", "Bash"), ("t1/call_1", "Read")]
    first, second = of(ToolResult, found)
    assert (first.call_id, answer(first.output)) == ("call_1", {"stdout": "1 failed\n"})
    assert (second.call_id, second.output["file"]["content"]) == ("t1/call_1", "assert 1 == 2")
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_result_may_name_its_calls_in_a_list() -> None:
    answered = {"role": "tool", "tool_call_ids": ["c1"], "content": "x"}
    called = {"role": "assistant", "tool_calls": [use("c1")]}

    assert [one.call_id for one in of(ToolResult, read_chat(request(user("Go."), called, answered)))] == ["c1"]


def test_answer_in_parts() -> None:
    """Mistral thinks in parts of the content."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    found = read_chat(completion({"content": [thinking, {"type": "text", "text": "4"}], "tool_calls": []}))

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert [one.text for one in of(Message, found)] == ["4"]


def test_truncated_answer_is_emitted() -> None:
    found = read_chat(chunk(content="Half a"), chunk(tool_calls=[{"index": 0, **use("a", arguments='{"n":')}]))

    assert [one.text for one in of(Message, found)] == ["Half a"]
    assert [one.status for one in of(ToolResult, found)] == ["interrupted"]


def test_usage_is_emitted_once_per_answer() -> None:
    """Line 2 states 40 prompt tokens, 30 of them cached; line 4 a total that adds 7 reasoning tokens to the 5."""
    first, second = of(Usage, chat("whole"))

    assert (first.scope, first.input_tokens, first.output_tokens, first.cache_read_tokens) == ("step", 40, 10, 30)
    assert (second.input_tokens, second.output_tokens, second.reasoning_tokens) == (60, 12, 7)


@pytest.mark.parametrize(
    ("completion_id", "identity"),
    [("chatcmpl-9mZq7vJ4bX2kT1sLw3eRyA", "chatcmpl-9mZq7vJ4bX2kT1sLw3eRyA"), ("chatcmpl-17", None)],
)
def test_id_of_an_answer_identifies_its_request_if_it_is_unique(completion_id: str, identity: str | None) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    found = read_chat(request(user("Hi")), {**completion({"content": "x"}), "id": completion_id, "usage": usage})

    assert [one.request for one in of(Usage, found)] == [identity]


def test_usage_of_every_chunk_is_emitted_once() -> None:
    usage = [{**chunk(content="x"), "usage": {"prompt_tokens": 3, "completion_tokens": n}} for n in (1, 2)]
    found = read_chat(*usage, {**chunk("stop"), "usage": {"prompt_tokens": 3, "completion_tokens": 3}})

    assert [(one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [(3, 3)]


def test_conversation_without_a_model_is_recognised() -> None:
    assert recognise({"messages": [user("Go."), shell("c", "ls")]}) == "openai-chat"
    assert recognise({"messages": [user("Go.")], "instance_id": "x"}) == "openai-chat"
    assert recognise({"messages": []}) is None
    assert recognise({"messages": [user("Go."), {"type": "gemini"}]}) is None


def test_bare_messages_are_read() -> None:
    called = {"role": "assistant", "content": "Look.", "tool_calls": [use("c1")]}
    lines = (user("Go."), called, result("c1"), {"role": "assistant", "content": "Done."})

    assert outline(read_chat(*lines)) == [
        "turn started",
        "message user",
        "message assistant",
        "tool-call look",
        "tool-result look completed",
        "message assistant",
        "turn completed",
    ]
    assert statistics("openai-chat", lines_of(lines)).with_events == 4


PIXEL = "iVBORw0KGgo="


@pytest.mark.parametrize(
    ("part", "attached"),
    [
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}, ("image/png", None)),
        ({"type": "image_url", "image_url": f"data:image/png;base64,{PIXEL}"}, ("image/png", None)),
        ({"type": "image_url", "image_url": {"url": "https://h.test/a.png"}}, ("image/*", "https://h.test/a.png")),
        ({"type": "document_url", "document_url": f"data:application/pdf;base64,{PIXEL}"}, ("application/pdf", None)),
        (
            {"type": "document_url", "document_url": "https://h.test/a"},
            ("application/octet-stream", "https://h.test/a"),
        ),
        ({"type": "file", "file": {"file_data": f"data:text/csv;base64,{PIXEL}"}}, ("text/csv", None)),
        ({"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}}, ("audio/wav", None)),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            ("image/png", None),
        ),
    ],
)
def test_files_of_a_prompt(part: dict[str, Any], attached: tuple[str, str | None]) -> None:
    (prompt,) = of(Message, read_chat(request({"role": "user", "content": [part]})))
    assert prompt.text == ""
    assert [(one.mime_type, one.uri) for one in prompt.attachments or []] == [attached]


def test_numbered_calls() -> None:
    uses = [{**use("", name, f'{{"city": "{name}"}}'), "id": number} for number, name in enumerate(("north", "south"))]
    asked = {"role": "assistant", "content": None, "tool_calls": uses}
    answers = [{**result("", text), "tool_call_id": number} for number, text in ((1, "rain"), (0, "sun"))]
    prompt = user("Weather?")
    found = read_chat(request(prompt), completion({"tool_calls": uses}), request(prompt, asked, *answers))
    assert [(one.name, one.output["value"]) for one in of(ToolResult, found)] == [("south", "rain"), ("north", "sun")]


PIXEL = "iVBORw0KGgo"
"""The first 8 bytes of a PNG file, in base64 without its padding."""


@pytest.mark.parametrize(
    "reasoning",
    [
        {"thinking": "Hm."},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm."}, {"type": "reasoning.encrypted"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
    ],
)
def test_reasoning_in_other_places(reasoning: dict[str, Any]) -> None:
    for lines in ([completion({"content": "x", **reasoning})], [chunk(**reasoning), chunk("stop", content="x")]):
        assert [one.text for one in of(Reasoning, read_chat(request(user("Hi")), *lines))] == ["Hm."]


def test_answer_in_sound_has_what_is_said() -> None:
    whole = [completion({"content": None, "audio": {"id": "a", "data": "", "transcript": "Hello there."}})]
    parts = [chunk(audio={"transcript": text}) for text in ("Hello", " there.")]

    for lines in (whole, [*parts, chunk("stop")]):
        assert [one.text for one in of(Message, read_chat(request(user("Hi")), *lines))] == ["Hi", "Hello there."]


def test_pictures_of_an_answer_are_attached() -> None:
    """OpenRouter has them in `images`. A picture is read without the padding of its base64, too."""
    images = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]

    for lines in ([completion({"content": "Here.", "images": images})], [chunk(content="Here."), chunk(images=images)]):
        said = of(Message, read_chat(request(user("Draw.")), *lines))[1:]
        assert [one.text for one in said] == ["Here.", ""]
        assert [(one.mime_type, one.bytes) for one in said[1].attachments or []] == [("image/png", 8)]


def test_context_that_codex_adds_is_no_prompt() -> None:
    context = user("<environment_context>\n  <cwd>/ws</cwd>\n</environment_context>")
    lines = [Line(orjson.dumps(request(context, user("Go."))))]
    found = normalize("openai-chat", lines, Context(stream="s", provider="codex"))
    assert [message.text for message in of(Message, found)] == ["Go."]
