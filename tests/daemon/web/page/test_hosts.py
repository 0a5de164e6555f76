"""The filter by host of the pages of all sessions, and what they name the host of."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.daemon.changing import edited
from tests.daemon.events import commit, event, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, shown
from tooltap.protocol.events import SessionEvent, Usage

MENUS = ("/files", "/usage?by=session")
"""Pages with menus, whose choices are links."""
FORMS = ("/calls", "/search?text=repair")
"""Pages with forms."""


@pytest.fixture(scope="module")
def two_hosts(common: tuple[Running, Browser]) -> Browser:
    """A session of a remote and one of this machine, which changed the same path."""
    daemon, browser = common
    for host, session, stream in (("box", "box/theirs", "box/s"), (None, "mine", "t")):
        names: dict[str, Any] = {"session": session, "stream": stream, "host": host}
        daemon.commit(
            commit(
                event(SessionEvent, state="started", cwd="/srv", title=session, **names),
                message("repair it", **names),
                *edited("1", "/srv/app.py", "x", "y", **names),
                event(Usage, scope="session", input_tokens=10, **names),
                stream=stream,
                state="ended",
            )
        )
    daemon.until_indexed()
    return browser


def found(page: Element) -> set[str]:
    """The sessions that the page lists something of."""
    main = page.one("main", id="timeline")
    if files := main.all("ul", class_="changers"):
        return {one.text for file in files for one in file.all("a", class_="title")}
    if sums := main.all("table", class_="sums"):
        return {one.text for one in sums[0].one("tbody").all("a")}
    if sections := main.all("section", class_="found"):
        return {one.one("h2").one("a").text for one in sections}
    return {one.one("p", class_="who").one("a").text for one in main.all("li") if one.all("p", class_="who")}


def with_hosts(address: str, *hosts: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode([('host', one) for one in hosts])}"


@pytest.mark.parametrize("address", [*MENUS, *FORMS])
@pytest.mark.parametrize(
    ("hosts", "sessions"),
    [
        ((), {"box/theirs", "mine"}),
        (("box",), {"box/theirs"}),
        ((".",), {"mine"}),
        ((".", "box"), {"box/theirs", "mine"}),
        (("lab",), set()),
    ],
)
def test_what_hosts_have_is_listed(
    two_hosts: Browser, address: str, hosts: tuple[str, ...], sessions: set[str]
) -> None:
    page = shown(two_hosts, with_hosts(address, *hosts))

    assert found(page) == sessions
    assert len(page.all("p", id="empty") + page.all("div", id="empty")) == (not sessions)


@pytest.mark.parametrize("address", MENUS)
def test_a_menu_has_the_hosts(two_hosts: Browser, address: str) -> None:
    [menu] = [
        one for one in shown(two_hosts, address).all("details", class_="menu") if one.one("summary").text == "Any host"
    ]
    this_machine, box = menu.all("a")

    assert (this_machine.text, box.text) == ("This machine", "box")
    assert found(shown(two_hosts, box.attributes["href"])) == {"box/theirs"}


@pytest.mark.parametrize("address", FORMS)
def test_a_form_has_the_hosts(two_hosts: Browser, address: str) -> None:
    chosen = with_hosts(address, "box", ".")
    [field] = shown(two_hosts, chosen).one("main", id="timeline").all("select", name="host")
    choices = [(one.attributes["value"], one.text, "selected" in one.attributes) for one in field.all("option")]
    kept = [one.attributes["value"] for one in shown(two_hosts, chosen).all("input", name="host")]

    assert choices == [("", "Any host", False), (".", "This machine", False), ("box", "box", True)]
    assert kept == ["."]


@pytest.mark.parametrize("address", [*MENUS, *FORMS])
def test_other_choices_keep_the_host(two_hosts: Browser, address: str) -> None:
    main = shown(two_hosts, with_hosts(address, "box")).one("main", id="timeline")
    pills = [one.attributes["href"] for one in main.all("a", class_="pill")]
    fields = main.all("input", name="host") + main.all("select", name="host")

    assert all("host=box" in one for one in pills)
    assert bool(fields) == (address != "/usage?by=session")


@pytest.mark.parametrize("address", ["/files", *FORMS])
def test_the_host_is_named_where_it_is_another(two_hosts: Browser, address: str) -> None:
    main = shown(two_hosts, address).one("main", id="timeline")
    named = [one.text for one in main.all("span", class_="host")]

    assert named == ["on box"]


def test_pages_that_home_leads_to_have_its_host(two_hosts: Browser) -> None:
    page = shown(two_hosts, "/?host=box")
    links = [one.attributes["href"] for one in page.one("main", id="timeline").all("a")]

    assert {"/usage?host=box", "/calls?outcome=failed&host=box"} <= set(links)


@pytest.mark.parametrize("address", [*MENUS, *FORMS])
def test_without_a_remote_there_is_no_choice(daemon: Running, browser: Browser, address: str) -> None:
    daemon.commit(commit(message("repair it"), *edited("1", "/srv/app.py", "x", "y")))

    assert "Any host" not in shown(browser, address).text
