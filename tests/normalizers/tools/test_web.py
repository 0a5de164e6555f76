"""WebFetch and WebSearch."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output

URL = "http://127.0.0.1:18080/page"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"url": URL, "prompt": "What?"}, {"url": URL}),
        ({"uri": URL}, {"url": URL}),
        ({"href": URL, "url": ""}, {"url": URL}),
        ({"requests": [{"url": URL, "prompt": "What?"}]}, {"url": URL}),
        ({"requests": [{"url": "http://a"}, {"url": "http://b"}]}, {"urls": ["http://a", "http://b"]}),
        ({"prompt": "Read http://a/b?c=d. Be short."}, {"url": "http://a/b?c=d"}),
        ({"prompt": "Compare http://a, (http://b) and http://a!"}, {"urls": ["http://a", "http://b"]}),
        ({"prompt": "Compare it with http://b", "url": "http://a"}, {"url": "http://a"}),
        ({"prompt": "Nothing to fetch"}, {}),
        ({"prompt": f"Summarize {URL}"}, {"url": URL}),
    ],
)
def test_fetch_input(value: dict[str, Any], expected: dict[str, Any]) -> None:
    assert tool_input("WebFetch", value, "fetch") == {**value, **expected}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("page", {"text": "page"}),
        ([{"type": "text", "text": "page"}], {"text": "page"}),
        ({"body": "page", "status": 200}, {"body": "page", "status": 200, "text": "page"}),
        (
            {"bytes": 4, "code": 200, "codeText": "OK", "result": "page", "url": URL, "content": "page"},
            {"bytes": 4, "code": 200, "codeText": "OK", "url": URL, "text": "page"},
        ),
        ({"error": "refused", "url": URL}, {"error": "refused", "url": URL, "errorMessage": "refused"}),
    ],
)
def test_fetch_result(value: Any, expected: dict[str, Any]) -> None:
    assert tool_output("WebFetch", value, "WebFetch") == expected


@pytest.mark.parametrize(
    ("value", "query"),
    [
        ({"query": "fixture page answer"}, "fixture page answer"),
        ({"q": "words"}, "words"),
        ({"search_term": "words"}, "words"),
        ({"query": "", "action": {"type": "search", "query": "words"}}, "words"),
        ({"query": "", "action": {"type": "search", "queries": ["a", "b"]}}, "a\nb"),
        ({"type": "webSearch", "query": "a", "action": {"type": "other", "query": "b"}}, "a"),
        ("words", "words"),
    ],
)
def test_search_input(value: Any, query: str) -> None:
    assert tool_input("WebSearch", value, "web_search")["query"] == query


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Nothing found.", {"results": [{"snippet": "Nothing found."}]}),
        ('[{"title": "A", "url": "http://a"}]', {"results": [{"title": "A", "url": "http://a"}]}),
        (
            [{"type": "web_search_result", "title": "A", "url": "http://a"}],
            {"results": [{"type": "web_search_result", "title": "A", "url": "http://a"}]},
        ),
        ([{"type": "text", "text": "A: http://a"}], {"results": [{"snippet": "A: http://a"}]}),
        ({"items": [{"url": "http://a"}], "error": "cut"}, {"results": [{"url": "http://a"}], "error": "cut"}),
        (
            {
                "query": "q",
                "results": [
                    {"tool_use_id": "srvtoolu_1", "content": [{"url": "http://a"}]},
                    "It says 42.",
                ],
                "durationSeconds": 0.1,
                "content": "Web search results for query: …",
            },
            {
                "query": "q",
                "durationSeconds": 0.1,
                "results": [{"url": "http://a"}, {"snippet": "It says 42."}],
            },
        ),
    ],
)
def test_search_result(value: Any, expected: dict[str, Any]) -> None:
    output = tool_output("WebSearch", value, "WebSearch")

    assert {**output, **expected} == output


@pytest.mark.parametrize("value", ["", {"error": "refused"}])
def test_missing_result_has_no_hits(value: Any) -> None:
    assert "results" not in tool_output("WebSearch", value, "WebSearch")
