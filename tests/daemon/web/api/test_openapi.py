"""The description of the endpoints: it is valid, it names what there is, and what a daemon answers is as it says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.daemon.events import call, commit, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import read, shown
from tooltap.daemon.web.http.openapi import document

MADE: dict[str, Any] = msgspec.json.decode(document())
WITH_PARAMETERS = [path for path, ways in MADE["paths"].items() if ways.get("get", {}).get("parameters")]


@pytest.fixture
def idle(common: tuple[Running, Browser]) -> Browser:
    """A browser of a daemon without events."""
    return common[1]


def validator_of(path: str, method: str = "get") -> Draft202012Validator:
    """A validator of what an endpoint answers as JSON."""
    schema = MADE["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": MADE["components"]})


def test_it_is_valid() -> None:
    assert list(OpenAPIV31SpecValidator(MADE).iter_errors()) == []


def test_a_daemon_serves_it(idle: Browser) -> None:
    assert idle.get("/api/openapi.json").body == document()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/sessions", "/api/sessions?facets=true"),
        ("/api/sessions/{session}/files", "/api/sessions/session-1/files"),
        ("/api/files", "/api/files"),
        ("/api/calls", "/api/calls"),
        ("/api/waiting", "/api/waiting"),
        ("/api/usage", "/api/usage"),
        ("/api/events", "/api/events"),
        ("/api/events", "/api/events?as=display&before=now"),
        ("/api/events/{seq}", "/api/events/1"),
        ("/api/stats", "/api/stats"),
        ("/api/logins", "/api/logins"),
        ("/healthz", "/healthz"),
    ],
)
def test_answers_are_as_it_says(daemon: Running, browser: Browser, path: str, target: str) -> None:
    daemon.commit(commit(message("Go."), call("1"), result("1")))

    answer = browser.get(target)

    assert answer.status == 200
    assert [error.message for error in validator_of(path).iter_errors(answer.json)] == []


def test_errors_are_as_it_says(idle: Browser) -> None:
    answer = idle.get("/api/events/7")

    assert answer.status == 404
    assert Draft202012Validator(MADE["components"]["schemas"]["Error"]).is_valid(answer.json)


def test_an_answer_of_another_form_would_be_noticed() -> None:
    assert not validator_of("/api/sessions").is_valid({"sessions": [{"session": 1}]})


@pytest.mark.parametrize("path", WITH_PARAMETERS)
def test_its_parameters_are_those_that_are_known(idle: Browser, path: str) -> None:
    """An unknown key is refused with the keys that there are."""
    told = {one["name"] for one in MADE["paths"][path]["get"]["parameters"] if one["in"] == "query"}
    more = "format=json&" if "format" in told else ""

    sentence = idle.get(f"{path.replace('{seq}', '1')}?{more}nothing=1").json["error"]["message"]

    assert sentence == f"unknown key `nothing`; the keys here: {', '.join(sorted(told))}"


def test_people_read_it_as_a_page(idle: Browser) -> None:
    page = shown(idle, "/api/docs")

    endpoints = [one.one("code").text for one in page.all("summary") if one.all("span", class_="method")]
    assert endpoints == [path for path, ways in MADE["paths"].items() for _ in ways]


def test_the_page_loads_nothing_from_elsewhere(idle: Browser) -> None:
    """Every address in it is of the daemon, and the policy lets a browser load from nowhere else."""
    answer = idle.get("/api/docs")
    names = ("href", "src", "srcset", "action", "data", "poster", "style", "content")
    found = [one.attributes[name] for one in read(answer.body).every() for name in names if name in one.attributes]

    assert [one for one in found if "//" in one or ":" in one] == []
    assert [one for one in answer.headers["Content-Security-Policy"].split() if "//" in one or "*" in one] == []
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert any(one.startswith("/static/") for one in found)
