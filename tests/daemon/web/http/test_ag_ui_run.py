"""Running an agent as AG-UI's clients do: answers to interrupts, prompts, and the run that follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.answering import OPENING, SESSION, Tap, answer, asking, result, turn_end
from tests.daemon.events import commit, message
from tests.daemon.export.test_ag_ui_live import check_order, customs, kinds, texts
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, Stream, browsed

HERE = f"/api/ag-ui/{SESSION}"
JSON = {"Content-Type": "application/json"}
PROMPT = {"id": "m1", "role": "user", "content": "Go on."}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def resume(number: int = 1, **payload: Any) -> dict[str, Any]:
    return {"interruptId": str(100 + number), "status": "resolved", "payload": {"outcome": "allowed", **payload}}


def given(**keys: Any) -> bytes:
    """What AG-UI's client sends, with all its keys."""
    more = {"tools": [], "context": [], "state": {}, "forwardedProps": {}, "messages": [], "protocolVersion": "1.0"}
    return json.dumps({"threadId": SESSION, "runId": "r1", **more, **keys}).encode()


def run(pool: ThreadPoolExecutor, browser: Browser, **keys: Any) -> Future[Stream]:
    return pool.submit(browser.stream, HERE, JSON, method="POST", body=given(**keys))


def said(text: str) -> tuple[str, dict[str, Any]]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return "out", {"method": "session/update", "params": {"sessionId": SESSION, "update": update}}


def rest(running: Future[Stream]) -> list[dict[str, Any]]:
    """The AG-UI events until the response ends."""
    with running.result() as stream:
        assert stream.response.status == 200, stream.response.read()
        return [one.json for one in stream]


def outcomes(found: list[dict[str, Any]]) -> list[str]:
    """The outcomes of answers; a notice with the code `answer` is a sentence."""
    return [one["outcome"] for one in customs(found, "answer") if isinstance(one, dict)]


def refused(browser: Browser, body: bytes, target: str = HERE) -> tuple[int, str, str]:
    return browser.get(target, JSON, method="POST", body=body).error


def test_answer_to_an_interrupt_reaches_the_agent_and_the_run_that_follows_the_client(
    daemon: Running, browser: Browser, pool: ThreadPoolExecutor
) -> None:
    tap = asking(daemon.connect(), 1)
    running = run(pool, browser, resume=[resume()])
    tap.write(tap.receive())
    tap.tap(said("Done."), ("out", turn_end()))
    found = rest(running)

    check_order(found)
    assert json.loads(tap.written[0])["result"]["outcome"]["optionId"] == "yes"
    assert texts(found) == ["Done."]
    assert found[0]["parentRunId"] == f"{SESSION}:1"
    assert found[-1]["outcome"] == {"type": "success"}


def test_interrupt_can_be_cancelled(daemon: Running, browser: Browser, pool: ThreadPoolExecutor) -> None:
    tap = asking(daemon.connect(), 1)
    running = run(pool, browser, resume=[{"interruptId": "101", "status": "cancelled"}])
    tap.write(tap.receive())
    tap.tap(("out", turn_end()))

    assert outcomes(rest(running)) == ["cancelled"]


def test_all_that_is_asked_is_answered_in_one_go(daemon: Running, browser: Browser, pool: ThreadPoolExecutor) -> None:
    tap = asking(daemon.connect(), 1, 2)
    with browser.stream(HERE) as stream:
        asked: list[dict[str, Any]] = []
        while len(asked) < 2:
            [last] = stream.take(1)
            asked = last.json.get("outcome", {}).get("interrupts", [])
    running = run(pool, browser, resume=[resume(1), resume(2, outcome="denied")])
    tap.write(tap.receive())
    tap.write(tap.receive())
    tap.tap(("out", turn_end()))

    assert [one["id"] for one in asked] == ["101", "102"]
    assert outcomes(rest(running)) == ["allowed", "denied"]


def test_client_that_was_too_late_gets_the_run_that_followed_the_first_answer(
    daemon: Running, browser: Browser, pool: ThreadPoolExecutor
) -> None:
    tap = asking(daemon.connect(), 1)
    with daemon.connect() as wire:
        answer(wire)
        tap.write(tap.receive())
        result(wire)
    tap.tap(said("Done."), ("out", turn_end()))
    found = rest(run(pool, browser, resume=[resume(outcome="denied")]))

    assert outcomes(found) == ["allowed"]
    assert texts(found) == ["Done."]


def test_prompt_is_sent_and_not_repeated_to_the_client(
    daemon: Running, browser: Browser, pool: ThreadPoolExecutor
) -> None:
    tap = Tap().connect(daemon.connect()).tap(*OPENING, ("out", turn_end()))
    running = run(pool, browser, messages=[PROMPT])
    tap.write(tap.receive())
    asked = json.loads(tap.written[0])
    tap.tap(said("Of course."), ("out", {"id": asked["id"], "result": {"stopReason": "end_turn"}}))
    found = rest(running)

    check_order(found)
    assert asked["params"]["prompt"] == [{"type": "text", "text": "Go on."}]
    assert texts(found) == ["Of course."]
    assert kinds(found)[-1] == "RUN_FINISHED"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({}, "a run needs `resume`, or the user's message as the last of `messages`"),
        (
            {"messages": [PROMPT, {"id": "m2", "role": "assistant", "content": "No."}]},
            "a run needs `resume`, or the user's message as the last of `messages`",
        ),
        (
            {"messages": [{**PROMPT, "content": [{"type": "image", "source": {}}]}]},
            "an agent can be sent text alone, and the message has something else",
        ),
        ({"messages": [{**PROMPT, "content": ""}]}, "`text`: expected `str` of length >= 1"),
        ({"messages": "m"}, "`messages`: expected `array`, got `str`"),
    ],
)
def test_mistakes_are_named(daemon: Running, browser: Browser, keys: dict[str, Any], sentence: str) -> None:
    daemon.commit(commit(message("a", session=SESSION)))

    assert refused(browser, given(**keys)) == (400, "bad-body", sentence)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"interruptId": "101"}, "`resume`: object missing required field `status`"),
        (
            {"interruptId": "101", "status": "resolved"},
            "`payload` of a resolved interrupt is an object, with the `outcome`",
        ),
        (
            {"interruptId": "101", "status": "resolved", "payload": {"approved": True}},
            "unknown key `approved`; the keys here: answers, by, message, optionId, outcome, remember, stream",
        ),
    ],
)
def test_mistakes_in_answers_are_named(daemon: Running, browser: Browser, entry: Any, sentence: str) -> None:
    asking(daemon.connect(), 1)

    assert refused(browser, given(resume=[entry])) == (400, "bad-body", sentence)


def test_answer_to_what_the_session_has_not_asked_is_refused(daemon: Running, browser: Browser) -> None:
    asking(daemon.connect(), 1)
    daemon.commit(commit(message("a", "other", session="other"), stream="other"))

    for target in (HERE, "/api/ag-ui/other"):
        entry = resume(7) if target == HERE else resume(1)
        assert refused(browser, given(resume=[entry]), target)[:2] == (404, "not-found")


def test_agent_that_nobody_can_reach_is_a_conflict(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("a", session=SESSION)))

    assert refused(browser, given(messages=[PROMPT]))[0] == 409


def test_only_json_is_read(daemon: Running, browser: Browser) -> None:
    answer = browser.get(HERE, {"Content-Type": "text/plain"}, method="POST", body=given(messages=[PROMPT]))

    assert answer.error[:2] == (415, "bad-body")


def test_signature_in_the_address_is_not_enough(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("a", session=SESSION)))
    login = browser.log_in()
    signed = browser.admitted(HERE, login)
    without = {name: value for name, value in login.items() if name != "Tooltap-Page"}

    assert browser.get(signed, {**JSON, **without}, method="POST", body=given()).error[:2] == (403, "forbidden")


def test_long_history_fits_and_one_without_end_does_not(tmp_path: Path) -> None:
    with browsed(tmp_path) as (daemon, browser):
        daemon.commit(commit(message("a", session=SESSION)))
        long = {"id": "m0", "role": "assistant", "content": "x" * 4_000_000}
        endless = {**long, "content": "x" * 17_000_000}

        assert refused(browser, given(messages=[long]))[0] == 400
        assert refused(browser, given(messages=[endless]))[:2] == (413, "too-large")
