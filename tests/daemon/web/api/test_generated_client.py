"""A client that a generator of clients makes of the description of the endpoints: it finds what a daemon has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tooltap.daemon.web.http.endpoints import ENDPOINTS
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.protocol.events import AnyEvent, Usage, encode
from tooltap.protocol.schema import UNIONS
from tooltap.testing import normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures"
SESSION = "a/b c"
NAMES = {str(kind.__struct_config__.tag): kind.__name__ for kind in get_args(AnyEvent)}


class Generated:
    """A generated package, and its client of a daemon."""

    def __init__(self, name: str, browser: Browser) -> None:
        self.name = name
        self.client = self.module("client").AuthenticatedClient(
            base_url=browser.url, token=browser.token, raise_on_unexpected_status=True
        )

    def module(self, name: str) -> Any:
        return import_module(f"{self.name}.{name}")

    def ask(self, operation: str, *arguments: object, **query: object) -> Any:
        """What an operation returns, as the JSON of which it was made."""
        return self.module(f"api.default.{operation}").sync(*arguments, client=self.client, **query)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Browser]]:
    with browsed(tmp_path_factory.mktemp("web")) as (daemon, browser):
        used = event(Usage, session=SESSION, line=4, scope="step", input_tokens=7, output_tokens=5, model="m")
        about = {"session": SESSION}
        said, asked, ended = message("Go.", **about), call("1", line=2, **about), result("1", line=3, **about)
        body = OutputChunk("s:3:o0", 0, b"Done.", "text/plain")
        daemon.commit(commit(said, asked, body, ended, used, lines=4))
        yield daemon, browser


@pytest.fixture(scope="module")
def generated(served: tuple[Running, Browser], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    """The client that is generated from what the daemon says of itself, without a warning."""
    folder, browser = tmp_path_factory.mktemp("generated"), served[1]
    document = folder / "openapi.json"
    document.write_bytes(browser.get("/api/openapi.json").body)
    package = folder / "generated_tooltap"
    settings = ConfigFile(post_hooks=[])
    config = Config.from_sources(settings, MetaType.NONE, document, "utf-8", False, package)
    assert [(one.header, one.detail, getattr(one, "data", None)) for one in generate(config=config)] == []
    sys.path.insert(0, str(folder))
    made = Generated(package.name, browser)
    with made.client:
        yield made
    sys.path.remove(str(folder))
    for name in [one for one in sys.modules if one.partition(".")[0] == package.name]:
        del sys.modules[name]


def test_it_has_every_endpoint(generated: Generated) -> None:
    names = [one.name for one in ENDPOINTS]

    assert [name for name in names if not callable(generated.module(f"api.default.{name}").sync_detailed)] == []


def test_it_has_every_object(generated: Generated, served: tuple[Running, Browser]) -> None:
    schemas = served[1].get("/api/openapi.json").json["components"]["schemas"]

    assert [name for name in {*schemas} - {*UNIONS} if not hasattr(generated.module("models"), name)] == []


@pytest.mark.parametrize(
    ("operation", "target"),
    [
        ("sessions", "/api/sessions"),
        ("events", "/api/events"),
        ("calls", "/api/calls"),
        ("usage", "/api/usage"),
        ("waiting", "/api/waiting"),
        ("changed_files", "/api/files"),
        ("stats", "/api/stats"),
        ("health", "/healthz"),
    ],
)
def test_it_finds_what_the_daemon_has(
    generated: Generated, served: tuple[Running, Browser], operation: str, target: str
) -> None:
    answer = generated.ask(operation).to_dict()

    assert {*answer} == {*served[1].get(target).json}
    if operation != "stats":  # which counts the requests
        assert answer == served[1].get(target).json


def test_its_objects_have_the_values(generated: Generated) -> None:
    [session] = generated.ask("sessions").sessions
    [ended] = generated.ask("calls", tool=["Bash"]).calls
    total = generated.ask("usage", session=[SESSION]).total

    assert (session.session, session.calls) == (SESSION, 1)
    assert (ended.call_id, ended.session) == ("1", SESSION)
    assert (total.input_tokens, total.output_tokens) == (7, 5)


def test_a_session_with_a_slash_and_a_space_is_found(generated: Generated) -> None:
    answers = [generated.ask("files", session) for session in (SESSION, "a/b")]

    assert [type(one).__name__ for one in answers] == ["FilesResult", "Error"]


def test_an_output_is_read_in_parts(generated: Generated) -> None:
    part = generated.module("models").OutputFormat.JSON

    assert generated.ask("output", "s:3:o0", format_=part).text == "Done."


def test_an_error_is_an_object(generated: Generated) -> None:
    error = generated.ask("event", 99).error

    assert error.code == "not-found"
    assert error.message


@pytest.mark.parametrize("dialect", dialects())
def test_it_decodes_recorded_events(generated: Generated, dialect: str) -> None:
    """One of each kind and tool: the class is that of the kind, and no key is lost."""
    read = generated.module("models").EventsResponse200.from_dict
    some: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted((FIXTURES / dialect).rglob("*.json*")):
        for one in normalize(dialect, read_recording(path.read_bytes()), Context(stream="s")):
            value = msgspec.json.decode(encode(one))
            some.setdefault((value["kind"], value.get("name", "")), value)

    page = read({"events": [*some.values()], "next": 1, "more": False, "journal": "j"})

    assert page.to_dict()["events"] == [*some.values()]
    assert [type(one).__name__ for one in page.events] == [NAMES[kind] for kind, _ in some]
