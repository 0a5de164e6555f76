"""Results of Cline's tools: the result of a batch is a list with one `{query, result, error?, success}` per part.

Cline adds line numbers, the exit code in brackets and a mark before stderr; the parser removes them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import error_words, stated_status, status_in_words
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import record, records, string

_NUMBERED = re.compile(r" *(\d+) \| ?(.*)", re.ASCII | re.DOTALL)
_EXIT_CODE = re.compile(r"\[Command exited with code (-?\d+)\]\n?", re.ASCII)
_STDERR = "\n[stderr]\n"
_HIT = re.compile(r"^(\S.*?):(\d+):(\d+)$", re.ASCII | re.MULTILINE)


def read_result(name: str, event: dict[str, Any]) -> Answer:
    """The answer in a `content_end` without its output bodies."""
    output = event.get("output")
    parts = records(output)
    is_batch, errors = bool(parts), []
    if not is_batch and type(output) is dict and "success" in output:
        parts, is_batch = [output], True
    statuses = [_failure(stated_status(event)), _failure(stated_status(output))]
    for part in parts:
        if "success" not in part:
            is_batch = is_batch and "result" in part
        if status := _failure(stated_status(part)):
            statuses.append(status)
            if words := error_words(part.get("error")):
                errors.append(words)
    value = _batch(name, parts) if is_batch else output
    words = "\n".join(errors) or None
    stated = error_words(record(output).get("error")) or error_words(event.get("error"))
    if not is_batch and stated is not None:
        value, words = None, error_words(record(decode_json(stated)).get("error")) or stated
        statuses.append("failed")
    answer = Answer(value, model=_seen_by_model(output))
    status = next(filter(None, statuses), None)
    if status is None:
        return answer
    words = words if words is not None or is_batch else blocks_text(record(output).get("content", output))
    refused = status_in_words(words, "cline")
    return answer.replace(status=refused or status, error=words, value=None if value == words else value)


def _failure(status: str | None) -> str | None:
    return None if status == "completed" else status


def _seen_by_model(output: Any) -> Any:
    """A text or content blocks go to the model as they are. Of a batch only its client gets these objects."""
    content = output.get("content") if type(output) is dict else output
    if isinstance(content, str):
        return content
    is_blocks = bool(content) and type(content) is list and all(record(one).get("type") for one in content)
    return content if is_blocks else msgspec.UNSET


def _batch(name: str, parts: list[dict[str, Any]]) -> Any:
    if name == "Bash":
        return _commands(parts)
    if name == "Read":
        files = [_file(part) for part in parts if part.get("success") is not False]
        if len(parts) > 1:
            return {"files": files}
        return {"file": files[0]} if files and "content" in files[0] else files[0] if files else None
    texts = [_text(part) for part in parts if part.get("success") is not False]
    text = "\n".join(one for one in texts if one)
    if name == "Grep":
        hits = [{"filePath": hit[1], "line": int(hit[2]), "column": int(hit[3])} for hit in _HIT.finditer(text)]
        return {"matches": hits, "text": text}
    return text or None


def _text(part: dict[str, Any]) -> str | None:
    return blocks_text(part.get("result"))


def _file(part: dict[str, Any]) -> dict[str, Any]:
    """A file with numbered lines, or a picture and a note that it was read."""
    file: dict[str, Any] = {"filePath": string(part.get("query"))}
    text = string(part.get("result"))
    if text is None:
        return {**file, "message": _text(part)}
    lines = [_NUMBERED.fullmatch(line) for line in text.split("\n")]
    numbered = [line for line in lines if line]
    if len(numbered) < len(lines):
        return {**file, "content": text}
    content = "\n".join(line[2] for line in numbered)
    return {**file, "content": content, "startLine": int(numbered[0][1]), "numLines": len(numbered)}


def _commands(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The output of one command; for several, all output joined, and the `results` of each."""
    results = [_command(_text(part) or "") for part in parts]
    if len(results) == 1:
        return results[0]
    each = [{"command": part.get("query"), **result} for part, result in zip(parts, results, strict=True)]
    printed = {
        stream: "".join(result[stream] for result in results if stream in result) for stream in ("stdout", "stderr")
    }
    return {**{stream: text for stream, text in printed.items() if text or stream == "stdout"}, "results": each}


def _command(text: str) -> dict[str, Any]:
    code = _EXIT_CODE.match(text)
    stdout, mark, stderr = (text[code.end() :] if code else text).partition(_STDERR)
    if not mark and stdout.startswith(_STDERR[1:]):
        stdout, mark, stderr = "", _STDERR, stdout.removeprefix(_STDERR[1:])
    result: dict[str, Any] = {"stdout": stdout}
    if mark:
        result["stderr"] = stderr
    if code:
        result["exit_code"] = int(code[1])
    return result
