"""What waits, live, for pages without live content."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from markupsafe import Markup

from tests.daemon.events import commit, event
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tooltap.daemon.show.asking import choices_of, fields_of
from tooltap.daemon.web.page.asks import Ask
from tooltap.daemon.web.page.routing import template
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent
from tooltap.protocol.replies import Waiting

WHERE: dict[str, Any] = {"stream": "s", "session": "s"}


def test_what_waits_is_sent_at_first_and_where_it_has_changed(daemon: Running, browser: Browser) -> None:
    started = event(SessionEvent, state="started", title="Push the branch", **WHERE)
    asked = event(PermissionRequest, permission_id="p", type="permission", name="Bash", title="<b>push</b>", **WHERE)
    told = event(PermissionResponse, permission_id="p", outcome="allowed", by="user", **WHERE)

    with browser.stream("/waiting/live?after=now") as stream:
        assert stream.until("waits")[-1].json == {"waiting": 0, "asks": []}
        daemon.commit(commit(started, asked, stream="s"))
        waits = stream.until("waits")[-1].json
        daemon.commit(commit(told, stream="s", base=1))
        assert stream.until("waits")[-1].json == {"waiting": 0, "asks": []}

    about = {"who": "Gemini CLI", "what": "wants to run a command", "about": "<b>push</b>", "url": "/sessions/s"}
    assert waits == {"waiting": 1, "asks": [{"id": "s 2 p", **about}]}


def test_it_is_for_those_who_are_logged_in(browser: Browser) -> None:
    assert browser.get("/waiting/live", {"Authorization": ""}).status == 403
    assert browser.get("/waiting/live?status=waiting").status == 400


@pytest.mark.parametrize("kind", ["permission", "question"])
def test_what_the_daemon_refuses_is_not_offered(kind: Literal["permission", "question"]) -> None:
    deny = {"id": "deny", "name": "Deny", "kind": "reject_once"}
    one = Waiting(
        session="s",
        provider="claude",
        stream="s",
        seq=1,
        permission_id="p",
        type=kind,
        options=[deny] if kind == "permission" else None,
        questions=None if kind == "permission" else [{"question": "Which?"}],
        answerable=True,
        withheld="it is masked here",
    )
    texts = dict.fromkeys(("key", "wants", "about", "name", "folder", "url", "address"), "x")
    shown = Ask(one=one, body=Markup(), choices=choices_of(one.options), fields=fields_of(one, {}), given=None, **texts)
    html = template("asks.html", asks=[shown], more=0, has_session=False)

    assert "It is masked here." in html
    assert 'data-outcome="denied"' in html
    assert not any(f'data-outcome="{outcome}"' in html for outcome in ("allowed", "answered"))
    assert "<fieldset" not in html
