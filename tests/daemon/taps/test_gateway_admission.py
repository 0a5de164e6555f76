"""Who may use the gateway, and for which paths."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tooltap.daemon.system.connections import Peer
from tooltap.daemon.taps.gateway.admission import Admission, RefusedError

KEY = "k" * 43
US = Peer(os.geteuid(), "127.0.0.1")
OTHER = Peer(os.geteuid() + 1, "127.0.0.1")
UNKNOWN = Peer(None, "127.0.0.1")
REMOTE = Peer(None, "192.0.2.7")


def scope(
    peer: Peer = US,
    path: str = "/v1/models",
    headers: dict[str, str] | None = None,
    *,
    host: str = "127.0.0.1:4010",
) -> dict[str, Any]:
    given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return {"state": {"peer": peer}, "raw_path": path.encode(), "headers": [(b"host", host.encode()), *given]}


def admission(key: str | None = KEY, *, any_address: bool = False) -> Admission:
    return Admission(key, hosts=["gateway.lan"], any_address=any_address)


def refusal(request: dict[str, Any], *, any_address: bool = False) -> int:
    with pytest.raises(RefusedError) as raised:
        admission(any_address=any_address).check(request)
    assert str(raised.value)
    return raised.value.status


def path_of(request: dict[str, Any], *, any_address: bool = False) -> bytes:
    return admission(any_address=any_address).check(request).path


@pytest.mark.parametrize("host", ["127.0.0.1:4010", "localhost", "[::1]:4010", "127.9.9.9", "LOCALHOST:1"])
def test_own_user_needs_no_key_on_this_machine(host: str) -> None:
    assert path_of(scope(host=host)) == b"/v1/models"


@pytest.mark.parametrize("peer", [OTHER, UNKNOWN, REMOTE])
def test_others_need_the_key(peer: Peer) -> None:
    assert refusal(scope(peer)) == 401
    assert path_of(scope(peer, f"/key-{KEY}/v1/models")) == b"/v1/models"


def test_own_user_needs_the_key_by_another_name() -> None:
    """A browser does not say which site asks, where the address is not this machine's own."""
    assert refusal(scope(host="gateway.lan")) == 401
    assert refusal(scope(host="192.0.2.1:4010"), any_address=True) == 401
    assert path_of(scope(path=f"/key-{KEY}/x", host="gateway.lan:80")) == b"/x"
    assert path_of(scope(path=f"/key-{KEY}/x", host="192.0.2.1:4010"), any_address=True) == b"/x"


def test_key_stands_in_the_place_of_an_api_key() -> None:
    for headers in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}, {"api-key": KEY}):
        admitted = admission().check(scope(OTHER, headers=headers))
        assert admitted.headers == [(b"host", b"127.0.0.1:4010")]


def test_api_key_of_the_server_passes() -> None:
    admitted = admission().check(scope(OTHER, f"/key-{KEY}/v1", {"authorization": "Bearer sk-1"}))

    assert admitted.headers[1:] == [(b"authorization", b"Bearer sk-1")]
    assert refusal(scope(OTHER, headers={"authorization": "Bearer sk-1"})) == 401


@pytest.mark.parametrize(
    "path", [f"/key-{KEY[1:]}/v1", f"/key-{KEY}x/v1", f"/key-{KEY.upper()}", "/key-x", "/key-/v1", f"/key-{KEY}*"]
)
@pytest.mark.parametrize("peer", [US, OTHER])
def test_wrong_key_is_refused(peer: Peer, path: str) -> None:
    assert refusal(scope(peer, path)) == 401


def test_url_with_the_key_alone_is_the_servers() -> None:
    assert path_of(scope(OTHER, f"/key-{KEY}")) == b"/"


def test_unix_socket_is_for_its_user_alone() -> None:
    own = admission(None).check(scope(Peer(os.geteuid(), ""), host="whatever"))
    assert own.path == b"/v1/models"
    with pytest.raises(RefusedError):
        admission(None).check(scope(Peer(os.geteuid() + 1, "")))
    with pytest.raises(RefusedError):
        admission(None).check(scope(Peer(None, "")))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.0.2.1", "", "127.0.0.1@evil", "a b"])
def test_foreign_host_is_refused(host: str) -> None:
    """With the key, too: a page may have it from the URL of another one."""
    assert refusal(scope(host=host)) == 403
    assert refusal(scope(path=f"/key-{KEY}/v1", host=host)) == 403


def test_number_of_hosts_is_one() -> None:
    two = scope()
    two["headers"].append((b"host", b"127.0.0.1"))
    none = scope()
    none["headers"] = []

    assert (refusal(two), refusal(none)) == (403, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "null"},
        {"origin": "file://"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": ""},
        {"origin": "http://127.0.0.1:4010", "sec-fetch-site": "same-site"},
    ],
)
def test_page_of_another_origin_is_refused(headers: dict[str, str]) -> None:
    assert refusal(scope(headers=headers)) == 403
    assert refusal(scope(OTHER, f"/key-{KEY}/v1", headers)) == 403


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://127.0.0.1:4010", "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}],
    ids=["page-of-the-server", "address-line"],
)
def test_browser_needs_the_key(headers: dict[str, str]) -> None:
    """A page can make it open any address, and look for an icon there."""
    assert refusal(scope(headers=headers)) == 401
    assert path_of(scope(US, f"/key-{KEY}/v1", headers)) == b"/v1"


@pytest.mark.parametrize(
    "path",
    [
        "/../x",
        "/v1/../../x",
        "/v1/..",
        "/.",
        "/v1/./x",
        "/%2e%2e/x",
        "/%2E./x",
        "/.%2e%2fx",
        "/v1/..%2fx",
        "/v1%2f..%2fx",
        "/%252e%252e/x",
        "/%25252525252e%25252525252e/x",
        "/..;/x",
        "/..;a=b/x",
        "/%2e%2e%3b/x",
        "/v1\\..\\x",
        "/v1/%5c../x",
        "/v1/..%5cx",
        "/v1/%255c",
        "//evil.example/x",
        "/%2fevil.example/x",
        "/%252fevil.example",
        "/\\evil.example",
        "http://evil.example/x",
        "http://127.0.0.1:4010/v1",
        "evil.example:80",
        "*",
        "",
        "v1",
        "/v1#x",
        "/%00",
        "/v1%0d%0aX:%20y",
        "/v1%7f",
        "/%c0%ae%c0%ae/x",
        "/%ff",
        "/%",
        "/%u002e",
        "/%2",
    ],
)
def test_path_that_may_leave_the_base_is_refused(path: str) -> None:
    assert refusal(scope(path=path)) == 400
    if path.startswith("/"):
        assert refusal(scope(OTHER, f"/key-{KEY}{path}")) == 400


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/",
        "/v1/mod%2Fels/%7Ex",
        "/v1/models/llama3.2:1b",
        "/v1/models/hf.co%2Fa%2Fb%3Aq4",
        "/v1//models",
        "/v1/...",
        "/v1/..x/x..",
        "/.well-known/x",
        "/%E2%82%AC",
        "/100%25",
        "/a;b",
        "/a?b",
    ],
)
def test_path_below_the_base_passes_unchanged(path: str) -> None:
    assert path_of(scope(path=path)) == path.encode()
