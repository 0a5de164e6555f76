"""A strict parser of HTML: every element must be closed in order. It also checks that HTML is inert."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urlsplit

__all__ = ["Element", "assert_inert", "parse"]

VOID = frozenset({"br", "hr", "img", "meta", "link", "input"})
ALLOWED = {
    *("article", "header", "section", "details", "summary", "div", "p", "span", "a", "time", "br", "hr"),
    *("pre", "code", "strong", "em", "s", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ins", "del", "mark"),
    *("dl", "dt", "dd", "ol", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "img", "figure", "figcaption"),
}
"""Elements that a card may be made of."""


UNSAFE = {"style", "srcdoc", "formaction", "xlink:href"}
"""Attributes that may do something, beside those that begin with `on`."""
HIDDEN = "\x7f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class Element:
    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element | str] = []

    def __repr__(self) -> str:
        return f"<{self.tag} {self.attributes}>"

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def raw(self) -> str:
        return "".join(child if isinstance(child, str) else child.raw for child in self.children)

    @property
    def text(self) -> str:
        """The text, with runs of whitespace as one space."""
        return " ".join(self.raw.split())

    def __iter__(self) -> Iterator[Element]:
        """Yield all elements in it, itself first."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    def all(self, selector: str) -> list[Element]:
        """Find elements by `tag`, `.class` or `tag.class`."""
        tag, _, name = selector.partition(".")
        return [one for one in self if (not tag or one.tag == tag) and (not name or name in one.classes)]

    def one(self, selector: str) -> Element:
        found = self.all(selector)
        assert len(found) == 1, f"{len(found)} of {selector} in: {self.text[:500]}"
        return found[0]

    def texts(self, selector: str) -> list[str]:
        return [one.text for one in self.all(selector)]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice: {tag} {attrs}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> ends <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:80]}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl[:80]}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"a processing instruction: {data[:80]}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data[:80]}")

    def finished(self) -> Element:
        self.close()
        assert self._open == [self.root], f"<{self._open[-1].tag}> has no end"
        return self.root


def parse(html: str) -> Element:
    parser = _Parser()
    parser.feed(html)
    return parser.finished()


def assert_inert(html: str) -> Element:
    """Check that nothing in it runs, loads anything from elsewhere, or hides behind control characters."""
    root = parse(html)
    for element in root:
        assert element.tag in ALLOWED or element is root, element
        for name, value in element.attributes.items():
            assert not name.startswith("on"), element
            assert name not in UNSAFE, element
            if name == "href":
                assert value.startswith("/") or urlsplit(value).scheme in ("http", "https", "mailto"), element
            if name == "src":
                assert (element.tag, value[:13]) == ("img", "/api/outputs/"), element
    hidden = {char for char in html if (ord(char) < 0x20 and char not in "\n\t") or char in HIDDEN}
    assert not hidden, hidden
    return root
