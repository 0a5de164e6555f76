"""States of calls and sessions on the page: true under every filter, however far apart call and result are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import shown
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import PermissionRequest, Turn

HIDING = ["kind=tool-call", "text=needle", "tool=sh", "kind=tool-call&text=needle", "kind=tool-call&agent=a"]


@pytest.mark.parametrize("query", HIDING)
def test_state_of_call_is_true_under_every_filter(daemon: Running, browser: Browser, query: str) -> None:
    about: dict[str, Any] = {"agent": "a"}

    def needle(call_id: str) -> Produced:
        return call(call_id, title="needle", **about)

    ended = ("completed", "failed", "denied", "cancelled", "interrupted")
    daemon.commit(
        commit(
            *(needle(status) for status in ended),
            *(needle(name) for name in ("runs", "asks", "background")),
            *(result(status, status=status, is_error=status == "failed", **about) for status in ended),
            event(PermissionRequest, permission_id="p", type="permission", call_id="asks", **about),
            result("background", async_=True, **about),
            *(needle("corrected"), result("corrected", synthetic=True, status="interrupted", line=2, **about)),
            result("corrected", status="denied", replaces="s:2:0", line=3, **about),
            *(message("x") for _ in range(60)),
        )
    )

    states = {
        one.attributes["data-call"]: one.attributes["data-status"]
        for one in shown(browser, f"/events?{query}").all("article", class_="tool-call")
    }
    assert states == {
        **{f"s {status}": status for status in ended},
        "s runs": "running",
        "s asks": "awaiting-permission",
        "s background": "running",
        "s corrected": "denied",
    }
    card = shown(browser, "/cards/1?level=full").one("article", id="e1")
    assert card.attributes["data-status"] == "completed"


def test_state_of_call_is_true_however_far_its_result(tmp_path: Path) -> None:
    with browsed(tmp_path, {"cards": 2}) as (daemon, browser):
        output = {"stdout": "x" * 100_000}
        daemon.commit(
            commit(call("1"), *(one for n in range(2, 9) for one in (call(str(n)), result(str(n), output=output)))),
            commit(result("1", status="failed", line=2), base=1),
        )

        for query in ("after=0", "kind=tool-call&after=0"):
            states = [
                one.attributes["data-status"]
                for one in shown(browser, f"/events?{query}").all("article", class_="tool-call")
            ]
            assert states[:2] == ["failed", "completed"]


def test_call_whose_result_is_too_far_is_not_running(tmp_path: Path) -> None:
    with browsed(tmp_path, {"cards": 2, "search_bytes": 4_096}) as (daemon, browser):
        others = (one for n in range(2, 9) for one in (call(str(n)), result(str(n), output={"stdout": "x" * 4_000})))
        daemon.commit(commit(call("1"), *others, result("1", status="failed")))

        card = shown(browser, "/events?after=0").one("article", id="e1")

        assert card.attributes["data-status"] == "ended"


@pytest.mark.parametrize(
    ("turns", "state", "shown_as"),
    [
        ([], "open", "open"),
        (["started"], "open", "open"),
        (["started", "completed"], "open", "idle"),
        (["started"], "suspended", "suspended"),
        ([], "suspended", "suspended"),
        (["started", "completed"], "suspended", "idle"),
        (["started", "cancelled"], "suspended", "idle"),
        (["started", "completed", "started"], "suspended", "suspended"),
        (["started", "completed"], "ended", "ended"),
    ],
)
def test_session_between_turns_is_idle(
    daemon: Running, browser: Browser, turns: list[Any], state: Any, shown_as: str
) -> None:
    of_agent = event(Turn, state="started", agent="a", parent="1")
    daemon.commit(commit(message("x"), *(event(Turn, state=one) for one in turns), of_agent, state=state))

    session = shown(browser).one("li", **{"data-session": "session-1"})
    row = browser.get("/api/sessions").json["sessions"][0]

    assert (session.attributes["data-state"], session.one("span", class_="state").text) == (shown_as, shown_as)
    assert (row["state"], row.get("turn")) == (state, turns[-1] if turns else None)
