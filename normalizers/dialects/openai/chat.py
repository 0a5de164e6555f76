"""The `openai-chat` dialect: Chat Completions, requests and answers, whole or streamed, one JSON object per line.

Learned from recordings of 18 hosts that speak it. A request repeats the conversation and adds prompts and results of
tools. A turn lasts from a prompt to an answer that calls no tool. A line may also be a bare message.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.catalog.registry import agent_of_provider
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.exchanges import MANY_CALLS, ExchangeParser, ExchangeState, merged
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.thoughts import split_thought
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.openai.answers import read_result
from tooltap.normalizers.tools.payload import decode_json, nonblank, strings
from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import (
    dollars,
    first_string,
    record,
    records,
    request_id,
    string,
    token_counts,
    whole,
)
from tooltap.protocol.events import Attachment, Message

SHORT = 500
"""Longest name of a model or provider, in characters."""

_CALLS_TOOLS = ("tool_calls", "function_call")
_FAILED = ("content_filter", "error")
_KEEP_ALIVE = ("keepalive", "ping")
"""Types of chunks that only keep the connection open (`ping`: OpenCode Zen)."""


class ChatCompletion(msgspec.Struct, omit_defaults=True):
    """A completion that is being received: what lies between a request and its end, whatever ids its chunks have."""

    id: str
    """That of its first chunk."""
    asked: bool = False
    """Its request is in the stream, so the next request ends it at the latest."""
    is_one: bool = True
    """All its chunks have one id."""
    pending: list[PendingCall] = []
    calls: int = 0
    images: list[Attachment] = []
    usage: dict[str, Any] | None = None
    finish: str | None = None


class OpenAIChatState(ExchangeState, kw_only=True):
    answer: ChatCompletion | None = None
    over: str | None = None
    """Id of the completion that ended last."""


class OpenAIChat(ExchangeParser):
    dialect = "openai-chat"
    protocol = default_provider = "openai"
    state_type = OpenAIChatState
    state: OpenAIChatState

    def read(self, value: Line) -> Skip:
        """The lines have no common key that says their kind."""
        if _is_completion(value):
            return self._completion(value)
        if not value:
            return "empty"
        if value.get("type") in _KEEP_ALIVE:
            return self._kept_alive(value)
        is_error = value.get("error") or value.get("object") == "error"
        if is_error and not isinstance(value.get("messages"), list):
            return self._error(value.get("error") or value)
        self.end_answer()
        if isinstance(value.get("messages"), list):
            messages = [one for one in records(value["messages"]) if one.get("role") not in ("system", "developer")]
            return self.read_conversation(messages, is_request="model" in value or "stream" in value)
        if isinstance(value.get("role"), str):
            return self.read_alone(value)
        return self.unparsed("unknown-type", value)

    def read_framing(self, line: bytes) -> None:
        if line.rstrip().endswith(b"[DONE]"):
            self.state.answered |= self.state.answer is not None
            self.end_answer()
        else:
            super().read_framing(line)

    def _kept_alive(self, value: Line) -> Skip:
        """Read what OpenCode Zen adds to its last `ping`: the cost of the answer."""
        completion, usage = self.state.answer, usage_of(value)
        if completion is None or usage is None:
            return "keep-alive"
        completion.usage = merged(completion.usage or {}, usage)
        return None

    def holds_back(self) -> bool:
        answer = self.state.answer
        return answer is not None and answer.finish is not None and answer.usage is not None

    # -- requests -------------------------------------------------------------------------------------------------

    def digest(self, message: Line) -> int:
        return digest_of(message)

    def is_prompt(self, message: Line) -> bool:
        return message.get("role") == "user" and not self._is_context(message)

    def _is_context(self, message: Line) -> bool:
        """Return whether a message in the user's role begins like what its agent adds."""
        agent = agent_of_provider(self.provider)
        return agent is not None and text_of(message).lstrip().startswith(agent.context)

    def read_message(self, message: Line, *, begins_turn: bool) -> Skip:
        role = message.get("role")
        if role in ("tool", "function"):
            return self._result(message)
        if role == "user":
            return "history" if self._is_context(message) else self._prompt(message, begins_turn)
        if role != "assistant":
            return "history"
        return self.read_repeated(message, uses_of(message), has_text=bool(texts_of(message)))

    def emit_repeated(self, message: Line) -> None:
        self._emit_texts(message, None)

    def _attached(self, content: Any) -> list[Attachment]:
        """The files among the parts of a message."""
        media = media_in(content)
        _, attachments = take_bodies(self, media)
        return [*(attachments or []), *links_in(media)]

    def _prompt(self, message: Line, begins_turn: bool) -> Skip:
        self.emit_prompt(text_of(message), self._attached(message.get("content")), begins_turn=begins_turn)
        return None

    def _result(self, message: Line) -> Skip:
        """Read a tool's result from the client. Old servers give calls no id; a result without an id is the newest
        call's."""
        raw, attachments = take_bodies(self, message)
        if not self.replay:
            self.ensure_turn()
        outcome: Skip = "history"
        for stated in result_ids(message) or [""]:
            call_id = self.state.aliases.get(stated, stated) or self.state.nameless or "unknown"
            if not self.calls.is_over(call_id):
                raw_name = first_string(message, "name") or UNKNOWN_TOOL
                answer = read_result(self.calls.tool_of(call_id, raw_name), raw).replace(attachments=attachments)
                self.calls.answer(call_id, answer, raw=raw, raw_name=raw_name)
                outcome = None
        return outcome

    # -- completions ----------------------------------------------------------------------------------------------

    def _completion(self, value: Line) -> Skip:
        """Read a whole completion, or a chunk of one."""
        state = self.state
        completion_id = string(value.get("id")) or ""
        choices = records(value.get("choices"))
        is_continued = state.answer is not None and _continues(state.answer, completion_id, choices)
        is_chunk = is_continued or any(isinstance(choice.get("delta"), dict) for choice in choices)
        if not is_continued:
            self.end_answer()
        if value.get("error"):
            return self._error(value["error"])
        if self.state.provider is None and (served_by := first_string(value, "provider")) is not None:
            # OpenRouter and its like name who answered; where they change that in mid-conversation, it keeps its first.
            self.set_provider("-".join(served_by[:SHORT].lower().split()))
        model = first_string(value, "model")
        is_news = self.uses_model(model if len(model or "") <= SHORT else None)
        if state.answer is None and choices:
            self.ensure_turn()
            state.answer, state.called = ChatCompletion(completion_id, state.asked), []
            state.asked = False
        completion = state.answer
        if completion is not None:
            completion.is_one &= completion_id in ("", completion.id)
            for choice in choices:
                is_news |= self._choice(choice, completion)
            if (usage := usage_of(value)) is not None:
                completion.usage = merged(completion.usage or {}, usage)
                is_news = True
            if not is_chunk:
                self.end_answer()
                is_news = True
        return None if is_news else "empty"

    def _choice(self, choice: Line, completion: ChatCompletion) -> bool:
        """Read a choice; returns whether it brings anything new."""
        is_news = False
        message, delta = choice.get("message"), choice.get("delta")
        if isinstance(message, dict):
            self.state.answered = True
            is_news = self._emit_texts(message, completion.id)
            uses = uses_of(message)
            self.open_calls(uses)
            completion.calls += len(uses)
            self._remember(text_of(message), uses)
        elif isinstance(delta, dict):
            is_news = self._delta(delta, completion, str(choice.get("index") or ""))
        if reason := first_string(choice, "finish_reason"):
            completion.finish = reason
            self.state.answered = is_news = True
        return is_news or completion.calls > 0

    def _delta(self, delta: Line, completion: ChatCompletion, key: str) -> bool:
        texts = texts_of(delta)
        for role, text in texts:
            self.texts.append(role, text, message_id=completion.id or None, key=key)
        entries, legacy = records(delta.get("tool_calls")), delta.get("function_call")
        if not entries and isinstance(legacy, dict):
            entries = [{"index": 0, "function": legacy}]
        for entry in entries:
            collect(completion.pending, entry, self.context.limits.call_bytes // 4)
        images = self._images(delta)
        completion.images += images
        if len(completion.images) > MANY_IMAGES:
            self._emit_images(completion.images, completion.id)
            completion.images = []
        return bool(texts or entries or images)

    def _emit_texts(self, message: Line, completion_id: str | None) -> bool:
        texts = texts_of(message)
        for role, text in texts:
            self.emit_text(role, text, message_id=completion_id or None)
        images = self._images(message)
        self._emit_images(images, completion_id)
        return bool(texts or images)

    def _images(self, message: Line) -> list[Attachment]:
        """The pictures that a model made; OpenRouter puts them beside the text."""
        return self._attached(message["images"]) if "images" in message else []

    def _emit_images(self, images: list[Attachment], completion_id: str | None) -> None:
        if images:
            self.emit(Message, role="assistant", text="", message_id=completion_id or None, attachments=images)

    def end_answer(self) -> None:
        """Emit the calls and the usage of the completion, and end the turn unless tools are to be called."""
        completion, self.state.answer = self.state.answer, None
        if completion is None:
            return
        # Servers that make up ids give another one to each chunk, or one to all answers.
        request = request_id(completion.id) if completion.is_one and completion.id != self.state.over else None
        self.state.over = completion.id or None
        texts = [text.buffer.head + text.held for text in self.state.texts.open.values() if text.role == "assistant"]
        self.texts.flush_turn(self.session, self.turn or "")
        self._emit_images(completion.images, completion.id)
        uses = [call.as_use() for call in completion.pending if call.id or call.name or call.arguments]
        self.open_calls(uses)
        self._remember("".join(texts), uses)
        outcome, finish = None, completion.finish
        if not uses and not completion.calls and finish is not None and finish not in _CALLS_TOOLS:
            outcome = "failed" if finish in _FAILED else "completed"
        self.emit_end(request, completion.usage, outcome=outcome, reason=finish, ended_by="answer")

    def _remember(self, text: str, uses: list[ChatCall]) -> None:
        """Remember how requests will repeat the answer: text and calls in one message or in two."""
        answer = {"role": "assistant", "content": text}
        self.remember_answer(digest_of(answer))
        self.remember_answer(digest_of({**answer, "tool_calls": [use.raw for use in uses]}))

    def _error(self, error: Any) -> Skip:
        """Read an error in place of a completion, or in the middle of one."""
        if (completion := self.state.answer) is not None:
            completion.finish = None  # whatever it stated, the error ends the turn
            self.end_answer()
        self.fail_exchange(record(error) or {"message": str(error)}, "code", "type")
        return None


def _is_completion(value: Line) -> bool:
    """Return whether a line is a completion or a chunk. That of the usage may have no choices, or null."""
    if isinstance(value.get("choices"), list):
        return True
    if value.get("choices") is not None or value.get("error") or not value.keys().isdisjoint(("messages", "role")):
        return False
    return isinstance(value.get("usage"), dict) or str(value.get("object")).startswith("chat.completion")


def _continues(answer: ChatCompletion, completion_id: str, choices: list[Line]) -> bool:
    """Return whether a line is of the answer that is being received, rather than the beginning of another one, in a
    stream that may lack requests and the framing of events."""
    if completion_id == answer.id or not choices:
        return True
    if any(isinstance(choice.get("message"), dict) for choice in choices):
        return False
    return answer.asked or answer.finish is None


# -- messages, as servers send them and clients send them back ---------------------------------------------------------


_MIME_TYPES = {"image_url": "image/*", "video_url": "video/*", "audio_url": "audio/*"}
MANY_IMAGES = 64
"""Maximum number of an answer's pictures that wait for its text."""

_MARKS = re.compile(r'[\\"{}\[\]]')
_NO_ARGUMENTS = ("", "None", "null")
"""Arguments that mean an empty object; OpenRouter sends `None`."""


class ChatCall(NamedTuple):
    """A call in a message."""

    id: str | None
    name: str | None
    arguments: Any
    raw: Line

    @property
    def value(self) -> Any:
        """Parsed arguments: the tool's input."""
        if not isinstance(self.arguments, str):
            return {} if self.arguments is None else self.arguments
        if self.arguments.strip() in _NO_ARGUMENTS:
            return {}
        try:
            return decode_text(self.arguments)
        except ValueError:
            return self.arguments


class PendingCall(msgspec.Struct, omit_defaults=True):
    """A call whose arguments are still coming."""

    id: str | None = None
    index: int | None = None
    name: str | None = None
    arguments: str = ""
    depth: int = 0
    """Number of braces and brackets that are open in the arguments so far."""
    in_text: bool = False
    is_escaped: bool = False
    """The next character follows a backslash in a text."""

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a whole object."""
        return self.arguments[-1:] == "}" and self.depth == 0 and not self.in_text

    def append(self, arguments: str) -> None:
        """Append arguments, unless they are complete. An empty object stands for what comes, if anything comes."""
        if self.is_complete:
            if self.arguments != "{}" or arguments[:1] != "{":
                return
            self.arguments = ""
        escaped = 0 if self.is_escaped else -1
        for mark in _MARKS.finditer(arguments):
            place, sign = mark.start(), mark.group()
            if place == escaped:
                continue
            if sign == '"':
                self.in_text = not self.in_text
            elif sign == "\\":
                escaped = place + 1
            elif not self.in_text:
                self.depth += 1 if sign in "{[" else -1
        self.is_escaped = escaped == len(arguments)
        self.arguments += arguments

    def repeats(self, name: str, arguments: str) -> bool:
        """Return whether a delta behind complete arguments tells the call again, or what an empty object stood for."""
        if name != self.name:
            return False
        return self.arguments in ("{}", arguments) or decode_json(self.arguments) == decode_json(arguments)

    def as_use(self) -> ChatCall:
        """Convert the deltas received so far to a call."""
        function = {"name": self.name, "arguments": self.arguments}
        raw = {"index": self.index, "id": self.id, "type": "function", "function": function}
        return ChatCall(self.id, self.name, self.arguments, {key: one for key, one in raw.items() if one is not None})


def text_of(message: Line) -> str:
    """The text of a message. Mistral sends parts; a refusal, or what is said in a sound, replaces the content."""
    content = message.get("content")
    if content:
        if type(content) is str:
            return content
        texts = _texts([part for part in records(content) if part.get("type", "text") == "text"])
        if text := "".join(texts):
            return text
    return first_string(message, "refusal") or first_string(record(message.get("audio")), "transcript") or ""


def media_in(content: Any) -> list[Line]:
    """Parts of a prompt; those with a file have the form `{url, mime, name}` or `{data, mime}`. The file is under the
    key of the part's own type: a link or a data URL (Mistral 2025 sends `document_url`, others an object), a file, or a
    sound."""
    media: list[Line] = []
    for part in records(content):
        kind = str(part.get("type"))
        held = part.get(kind)
        inner = record(held)
        if isinstance(url := held if type(held) is str and kind.endswith("_url") else inner.get("url"), str):
            media.append({"url": url, "mime": _MIME_TYPES.get(kind), "name": None})
        elif isinstance(inner.get("file_data"), str):
            media.append({"url": inner["file_data"], "mime": None, "name": first_string(inner, "filename")})
        elif isinstance(inner.get("data"), str):
            media.append({"data": inner["data"], "mime": f"audio/{first_string(inner, 'format') or '*'}"})
        else:
            media.append(part)
    return media


def links_in(media: list[Line]) -> list[Attachment]:
    """Attachments for files that a prompt only links to."""
    return [
        Attachment(mime_type=one["mime"] or "application/octet-stream", uri=one["url"], name=one["name"])
        for one in media
        if "url" in one and "name" in one and not str(one["url"]).startswith("data:")
    ]


def texts_of(message: Line) -> list[tuple[str, str]]:
    """(role, text) of the reasoning and of the text, where the message has them."""
    texts: list[tuple[str, str]] = []
    if reasoning := _reasoning_of(message):
        texts.append(("reasoning", reasoning))
    if text := text_of(message):
        texts.append(("assistant", text))
    return texts


def _reasoning_of(message: Line) -> str:
    """The reasoning, which servers put in one of several places, or in two at once."""
    if stated := first_string(message, "reasoning_content", "reasoning", "thinking"):
        return stated
    content, details = message.get("content"), message.get("reasoning_details")
    if type(content) is not list and not details:
        return ""
    thinking = [part for one in records(content) for part in records(one.get("thinking"))]
    return "".join(_texts(records(details)) or _texts(records(details), "summary") or _texts(thinking))


def _texts(parts: list[Line], key: str = "text") -> list[str]:
    return [part[key] for part in parts if isinstance(part.get(key), str)]


def uses_of(message: Line) -> list[ChatCall]:
    """The calls of a whole message, and the `function_call` of the API before it had `tool_calls`."""
    called, calls = message.get("function_call"), message.get("tool_calls")
    if not calls and not called:
        return []
    entries, legacy = records(calls), record(called)
    if not entries and nonblank(legacy.get("name")):
        entries = [{"type": "function", "function": legacy}]
    return [_use(entry) for entry in entries]


def _use(entry: Line) -> ChatCall:
    """Convert an entry to a call of a function, or of a custom tool, whose input is text."""
    called, custom = record(entry.get("function")), record(entry.get("custom"))
    arguments = called.get("arguments")
    if nonblank(custom.get("name")):
        called, arguments = custom, custom.get("input")
    return ChatCall(_id_of(entry.get("id")), first_string(called, "name"), arguments, entry)


def result_ids(message: Line) -> list[str]:
    """The calls that a tool's message answers; SWE-agent names them in a list."""
    call_id = _id_of(message.get("tool_call_id"))
    return [call_id] if call_id is not None else strings(message.get("tool_call_ids"))


def _id_of(value: Any) -> str | None:
    """The id of a call; Text Generation Inference numbers them."""
    return str(value) if type(value) is int else value if nonblank(value) else None


def digest_of(message: Line) -> int:
    """CRC of a message that stays the same when the message is repeated: of role, text, ids and names of calls, and ids
    of answered calls. Servers and clients change everything else."""
    names, text = [(use.id, use.name) for use in uses_of(message)], text_of(message)
    if message.get("role") == "assistant":
        text = split_thought(text)[1]  # clients leave it out
    return zlib.crc32(msgspec.json.encode([message.get("role"), text, names, result_ids(message)]))


def usage_of(value: Line) -> Line | None:
    """Return the fields of a usage event that a completion or a chunk states; None if there are none.

    The prompt includes cached tokens, but where a server uses Anthropic's names; the total shows whether the output
    includes the reasoning. OpenCode Zen states the cost in a chunk of its own."""
    usage = record(value.get("usage"))
    cost = dollars(usage.get("cost"))
    cost = dollars(value.get("cost")) if cost is None else cost
    prompt, output = _count(usage, "prompt_tokens", "input_tokens"), _count(usage, "completion_tokens", "output_tokens")
    if prompt is None and output is None:
        return None if cost is None else {"cost_usd": cost}
    inputs = record(usage.get("prompt_tokens_details")) or record(usage.get("input_tokens_details"))
    outputs = record(usage.get("completion_tokens_details")) or record(usage.get("output_tokens_details"))
    reasoning, total = whole(outputs.get("reasoning_tokens")), whole(usage.get("total_tokens"))
    if None not in (prompt, output, reasoning, total) and prompt + output + reasoning == total:  # type: ignore[operator]
        output = (output or 0) + (reasoning or 0)
    read, write = _count(inputs, "cached_tokens"), _count(inputs, "cache_write_tokens", "cache_creation_tokens")
    if read is None:
        read = _count(usage, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")
    if write is None:
        write = _count(usage, "cache_creation_input_tokens")  # LiteLLM
    apart = "prompt_tokens" not in usage and not inputs
    counts = token_counts(prompt, output, read, write, reasoning, apart=apart)
    return {**counts, "cost_usd": cost}


def _count(usage: Line, *keys: str) -> int | None:
    """The first of these counts that is stated."""
    return next((count for key in keys if (count := whole(usage.get(key))) is not None), None)


def collect(pending: list[PendingCall], entry: Line, limit: int) -> None:
    """Append a delta to the call that it continues, or begin another one.

    A delta that would make the arguments longer than `limit` characters is dropped, and so is one behind arguments that
    are complete: servers repeat a whole call in their last chunk.
    """
    function = record(entry.get("function"))
    call_id, name, index = _id_of(entry.get("id")), first_string(function, "name"), whole(entry.get("index"))
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    call = _continued(pending, call_id, index, name)
    if call is not None and name is not None and arguments and call.is_complete and not call.repeats(name, arguments):
        call = None
    if call is None:
        call = PendingCall(index=index)
        pending.append(call)
        del pending[:-MANY_CALLS]
    call.id, call.name = call.id or call_id, call.name or name
    if arguments and len(call.arguments) + len(arguments) <= limit:
        call.append(arguments)


def _continued(
    pending: list[PendingCall], call_id: str | None, index: int | None, name: str | None
) -> PendingCall | None:
    """The call that a delta continues: the one with its id and its index, else with its id, else with its index, else
    the last one.

    A new id begins a call, even at an index that is taken; so does a name if no call can be continued, or at an index
    of its own: servers give parallel calls one id."""
    known = [call for call in reversed(pending) if call_id is not None and call.id == call_id]
    if known:
        both = next((call for call in known if None in (index, call.index) or call.index == index), None)
        return both or (known[0] if name is None else None)
    at_index = next((call for call in reversed(pending) if index is not None and call.index == index), None)
    if at_index is not None:
        return at_index if call_id is None or at_index.id is None else None
    can_continue = call_id is None and pending and (name is None or pending[-1].name is None)
    return pending[-1] if can_continue else None
