"""`/api/answer`, `/api/send` and `/api/interrupt`: who may tell an agent something, and what the daemon is asked then.

The daemon's part, which decides and delivers, is replaced where requests are handled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.daemon.web.browsing import Browser, Response
from tooltap.daemon.server.requests import Requests
from tooltap.protocol.frames import AnswerRequest, FrameError, InterruptRequest, SendRequest
from tooltap.protocol.frames import Request as ClientRequest

JSON = {"Content-Type": "application/json"}
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
ANSWER = {"permissionId": "p", "outcome": "allowed"}
TOLD = [
    ("/api/answer", ANSWER),
    ("/api/send", {"session": "s", "text": "Go on."}),
    ("/api/interrupt", {"session": "s"}),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ClientRequest]:
    """The requests that reach the daemon's handling."""
    found: list[ClientRequest] = []

    async def handled(_: Requests, request: ClientRequest) -> Any:
        found.append(request)
        if isinstance(request, AnswerRequest) and request.permission_id == "late":
            raise FrameError("already-answered", "alice in the terminal answered 3 s ago: allowed")
        return {"delivered": True}

    monkeypatch.setattr(Requests, "_result", handled)
    return found


def tell(browser: Browser, target: str, body: Any, headers: dict[str, str] | None = None) -> Response:
    return browser.get(target, {**JSON, **(headers or {})}, method="POST", body=json.dumps(body).encode())


def test_program_answers_sends_and_interrupts(browser: Browser, asked: list[ClientRequest]) -> None:
    for target, body in TOLD:
        answer = tell(browser, target, body | {"by": "a script"})
        assert (answer.status, answer.json) == (200, {"delivered": True})

    by = "a script, over HTTP"
    assert asked == [
        AnswerRequest(permission_id="p", outcome="allowed", by=by),
        SendRequest(session="s", text="Go on.", by=by),
        InterruptRequest(session="s", by=by),
    ]


def test_browser_cannot_say_who_it_is(browser: Browser, asked: list[ClientRequest]) -> None:
    login = browser.log_in(known={"User-Agent": CHROME})

    for target, body in TOLD:
        assert tell(browser, target, body | {"by": "alice"}, login).status == 200

    assert [one.by for one in asked] == ["the page in Chrome 131 on Linux"] * 3  # type: ignore[union-attr]


@pytest.mark.parametrize(("target", "body"), TOLD)
def test_signature_in_the_address_is_not_enough(
    browser: Browser, asked: list[ClientRequest], target: str, body: Any
) -> None:
    login = browser.log_in()
    signed = browser.admitted(target, login)
    without = {name: value for name, value in login.items() if name != "Tooltap-Page"}

    assert tell(browser, signed, body, without).error[:2] == (403, "forbidden")
    assert tell(browser, target, body, without).error[:2] == (403, "forbidden")
    assert tell(browser, target, body, {**login, "Origin": "http://127.0.0.1:1"}).error[:2] == (403, "forbidden")
    assert asked == []


@pytest.mark.parametrize(("target", "body"), TOLD)
def test_only_json_is_read(browser: Browser, asked: list[ClientRequest], target: str, body: Any) -> None:
    """A form of another site has one of these types, or none, and sends `GET` or `POST`."""
    sentence = "the body is a JSON object, with `Content-Type: application/json`"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert tell(browser, target, body, {"Content-Type": kind}).error == (415, "bad-body", sentence)
    assert browser.get(target).error[:2] == (405, "method-not-allowed")
    assert browser.get(f"{target}?permissionId=p&outcome=allowed").error[:2] == (405, "method-not-allowed")
    assert asked == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is not a JSON object, or too deep"),
        (b"[]", "the body is not a JSON object, or too deep"),
        (b'{"a":' * 100_000, "the body is not a JSON object, or too deep"),
        (
            b'{"id":1}',
            "unknown key `id`; the keys here: answers, by, message, optionId, outcome, permissionId, remember, stream",
        ),
        (b'{"permissionId":"p"}', "object missing required field `outcome`"),
        (b'{"permissionId":"p","outcome":"yes"}', "`outcome`: invalid enum value 'yes'"),
        (b'{"permissionId":"p","outcome":"allowed","remember":1}', "`remember`: expected `bool`, got `int`"),
    ],
)
def test_mistakes_are_named(browser: Browser, asked: list[ClientRequest], body: bytes, sentence: str) -> None:
    assert browser.get("/api/answer", JSON, method="POST", body=body).error == (400, "bad-body", sentence)
    assert asked == []


def test_later_answer_is_a_conflict(browser: Browser, asked: list[ClientRequest]) -> None:
    late = tell(browser, "/api/answer", ANSWER | {"permissionId": "late"})

    assert late.error == (409, "already-answered", "alice in the terminal answered 3 s ago: allowed")


def test_long_prompt_fits(browser: Browser, asked: list[ClientRequest]) -> None:
    """100,000 characters of any kind; a form has less."""
    text = "\x01" * 100_000  # six bytes each in JSON

    assert tell(browser, "/api/send", {"session": "s", "text": text}).status == 200
    too_long = tell(browser, "/api/send", {"session": "s", "text": text * 2})
    assert too_long.error == (413, "too-large", "a request has at most 1048576 bytes")
    [sent] = asked
    assert isinstance(sent, SendRequest)
    assert sent.text == text
