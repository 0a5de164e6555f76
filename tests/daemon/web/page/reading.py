"""Reads the page over HTTP: as a tree of elements, with its links and cards."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlencode

from tests.daemon.web.browsing import Browser


class Element:
    def __init__(self, tag: str, attributes: dict[str, str], parent: Element | None = None) -> None:
        self.tag = tag
        self.parent = parent
        self.attributes = attributes
        self.text = ""
        self.inside: list[Element] = []

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Return the elements in it, at any depth. `class_`: one of the classes."""
        found: list[Element] = []
        for one in self.inside:
            if one.tag == tag and all(one._has(name.rstrip("_"), value) for name, value in attributes.items()):
                found.append(one)
            found += one.all(tag, **attributes)
        return found

    def every(self) -> list[Element]:
        return [each for one in self.inside for each in (one, *one.every())]

    def one(self, tag: str, **attributes: str) -> Element:
        found = self.all(tag, **attributes)
        assert len(found) == 1, (tag, attributes, len(found))
        return found[0]

    def _has(self, name: str, value: str) -> bool:
        own = self.attributes.get(name, "")
        return value in own.split() if name == "class" else own == value


class Reader(HTMLParser):
    """Parses well-formed HTML into a tree; fails at an element that is not closed properly."""

    VOID = ("meta", "link", "input", "br", "hr", "img")

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(markup)
        assert self._open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open[-1])
        self._open[-1].inside.append(element)
        if tag not in self.VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for one in self._open:
            one.text += data


def read(markup: bytes | str) -> Element:
    return Reader(markup.decode() if isinstance(markup, bytes) else markup).root


def shown(browser: Browser, target: str = "/events", **headers: str) -> Element:
    answer = browser.get(target, headers or None)
    if answer.status == 303:
        answer = browser.get(answer.headers["Location"], headers or None)
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    return read(answer.body)


def seqs(page: Element) -> list[int]:
    """Return the `seq` of all cards, including nested ones."""
    return [int(one.attributes["data-seq"]) for one in page.all("article")]


def section(page: Element) -> dict[str, str]:
    return page.one("section", class_="cards").attributes


def hrefs(page: Element) -> dict[str, str]:
    """Return the URLs of visible links by their `id`, without the palette, which is closed."""
    links = [one.attributes for one in page.all("a")]
    visible = [one for one in links if "id" in one and "hidden" not in one and one.get("role") != "option"]
    return {one["id"]: one["href"] for one in visible}


def prefer(browser: Browser, **fields: str) -> str:
    """Send the form and return the cookie."""
    answer = browser.get("/preferences", method="POST", body=urlencode(fields).encode())
    assert answer.status == 303, answer.body
    cookie = answer.headers["Set-Cookie"]
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
    return str(cookie.partition(";")[0])
