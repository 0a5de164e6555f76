"""A daemon calls a person: commands that are really run, webhooks to a real server, and what becomes of failures."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.header import decode_header, make_header
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.daemon.events import call, commit, event, result
from tests.daemon.running import Running, running
from tests.daemon.web.browsing import until
from tests.http_server import HttpServer, Request, Response
from tooltap.daemon.config import ConfigError, load_config
from tooltap.daemon.notifications import notifier
from tooltap.daemon.notifications.rules import NotifyRule
from tooltap.daemon.system.clock import wall_clock
from tooltap.protocol.events import PermissionRequest, QuotaWindow, SessionEvent, Turn, Usage

pytestmark = pytest.mark.process

TOKEN = "ghp_" + "a1B2" * 9
"""A secret, which is masked."""


class Received(NamedTuple):
    body: bytes
    headers: dict[str, str]


@contextmanager
def server(*codes: int) -> Iterator[tuple[str, queue.Queue[Received]]]:
    """Serve webhooks: the address, and what was received. `codes`: the first answers; 200 after them."""
    received: queue.Queue[Received] = queue.Queue()
    answers = iter(codes)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put(Received(self.rfile.read(int(self.headers["Content-Length"])), dict(self.headers)))
            self.send_response(next(answers, 200))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/hook", received
        finally:
            http.shutdown()
            thread.join()


@contextmanager
def notifying(folder: Path, *, web: bool = False, **rule: Any) -> Iterator[Running]:
    """Run a daemon with one rule, until it has looked at the sessions for the first time."""
    rule = {"after": 0.0, **rule}
    with running(
        folder,
        notify=[rule],
        web={"enabled": web, "listen": "127.0.0.1:0"},
        look_period=0.02,
        usage_period=0.0,
        webhook_pauses=(0.02, 0.02, 0.02),
    ) as daemon:
        until(lambda: daemon.daemon._notifier.has_looked, "the first look")
        yield daemon


def ask(daemon: Running, title: str = "make deploy", **fields: Any) -> None:
    daemon.commit(
        commit(
            event(SessionEvent, state="started", title="Deploy it", cwd="/src/shop", **fields),
            call("c1", **fields),
            event(
                PermissionRequest,
                permission_id="p",
                type="permission",
                call_id="c1",
                name="Bash",
                title=title,
                options=[{"id": "a", "name": "Allow"}, {"id": "b", "name": "Deny"}],
                ts=wall_clock(),
                **fields,
            ),
        )
    )


def test_command_gets_the_message(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = "import json, sys; print(json.dumps([sys.argv[2:], json.load(sys.stdin)]), file=open(sys.argv[1], 'w'))"
    words = [sys.executable, "-c", program, str(out), "{title}", "{text}", "{reason}/{session}", "{other}"]
    with notifying(tmp_path, command=words) as daemon:
        ask(daemon)
        until(lambda: daemon.stats()["notifying"]["sent"] == 1, "the call")
    arguments, message = json.loads(out.read_text())
    assert arguments == [
        "gemini waits for you: shop",
        "Bash make deploy [Allow | Deny]",
        "waiting/session-1",
        "{other}",
    ]
    assert message.pop("ts") > 0
    assert message == {
        "reason": "waiting",
        "title": "gemini waits for you: shop",
        "text": "Bash make deploy [Allow | Deny]",
        "session": "session-1",
        "sessionTitle": "Deploy it",
        "provider": "gemini",
        "project": "/src/shop",
        "seq": 3,
        "permissionId": "p",
    }


def test_text_from_outside_is_no_option_and_no_control_character(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"
    command = [sys.executable, "-c", program, str(out), "{text}", "--link={link}"]
    with notifying(tmp_path, on=["done"], command=command) as daemon:
        done(daemon, title="--exec=\u001b[31m rm\n\u0000x")
        until(lambda: daemon.stats()["notifying"]["sent"] == 1, "the call")
    text, link = json.loads(out.read_text())
    assert text.startswith(" --exec=")
    assert not set("\u001b\n\u0000") & set(text)
    assert link == "--link="


def done(daemon: Running, *, title: str = "Deploy it", state: str = "completed") -> None:
    now = wall_clock()
    daemon.commit(
        commit(
            event(SessionEvent, state="started", title=title, ts=now),
            event(Turn, state="started", turn="t", ts=now),
            event(Turn, state=state, turn="t", ts=now),
        )
    )


@pytest.mark.parametrize(("state", "words"), [("completed", "gemini is done"), ("failed", "gemini has failed")])
def test_webhook_at_the_end_of_a_turn(tmp_path: Path, state: str, words: str) -> None:
    with (
        server() as (url, received),
        notifying(tmp_path, on=["done", "failed"], url=url, secret="key", web=True) as daemon,
    ):
        done(daemon, state=state)
        body, headers = received.get(timeout=30)
        assert daemon.daemon.web is not None
        page = daemon.daemon.web.url
    message = json.loads(body)
    assert (message["title"], message["text"], message["link"]) == (words, "Deploy it", f"{page}/sessions/session-1")
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Tooltap-Signature"] == "sha256=" + hmac.new(b"key", body, hashlib.sha256).hexdigest()


def test_ntfy(tmp_path: Path) -> None:
    with server() as (url, received), notifying(tmp_path, url=url, format="ntfy") as daemon:
        ask(daemon, provider="grün")
        body, headers = received.get(timeout=30)
    assert body == b"Bash make deploy [Allow | Deny]"
    assert str(make_header(decode_header(headers["Title"]))) == "grün waits for you: shop"
    assert (headers["Priority"], "Click" in headers) == ("high", False)


def test_slack(tmp_path: Path) -> None:
    with server() as (url, received), notifying(tmp_path, url=url, format="slack") as daemon:
        ask(daemon, title="echo <!channel> & co")
        body, _ = received.get(timeout=30)
    text = "*gemini waits for you: shop*\nBash echo &lt;!channel&gt; &amp; co [Allow | Deny]"
    assert json.loads(body) == {"text": text}


def test_secrets_are_masked(tmp_path: Path) -> None:
    with server() as (url, received), notifying(tmp_path, url=url) as daemon:
        ask(daemon, title=f"git push https://{TOKEN}@github.com/a/b")
        body, _ = received.get(timeout=30)
    assert TOKEN not in body.decode()
    assert "[masked" in json.loads(body)["text"]


def test_webhook_is_sent_again(tmp_path: Path) -> None:
    with server(503, 429) as (url, received), notifying(tmp_path, url=url) as daemon:
        ask(daemon)
        bodies = {received.get(timeout=30).body for _ in range(3)}
        until(lambda: daemon.stats()["notifying"]["sent"] == 1, "the third attempt")
        assert daemon.stats()["notifying"] == {"rules": 1, "sent": 1, "failed": 0, "dropped": 0}
    assert len(bodies) == 1


def test_webhook_that_fails_is_given_up(tmp_path: Path) -> None:
    with server(*[500] * 4) as (url, received), notifying(tmp_path, url=url) as daemon:
        ask(daemon)
        until(lambda: daemon.stats()["notifying"]["failed"] == 1, "the last attempt")
        assert received.qsize() == 4


def test_webhook_is_sent_to_no_other_address(tmp_path: Path) -> None:
    """A redirect that was followed would be a request without the message, and would count as sent."""
    with server() as (elsewhere, received), HttpServer(lambda _, reply: redirect(reply, elsewhere)) as first:
        with notifying(tmp_path, url=first.url) as daemon:
            ask(daemon)
            until(lambda: daemon.stats()["notifying"]["failed"] == 1, "the last attempt")
        assert (len(first.requests), received.qsize()) == (4, 0)


def redirect(response: Response, address: str) -> None:
    response.whole(302, b"", f"Location: {address}")


def test_webhook_takes_no_more_than_its_time(tmp_path: Path) -> None:
    def promise_forever(_: Request, response: Response) -> None:
        with suppress(OSError):
            while True:
                response.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        response.break_off()

    with HttpServer(promise_forever) as server, notifying(tmp_path, url=server.url, timeout=0.2) as daemon:
        ask(daemon)
        until(lambda: daemon.stats()["notifying"]["failed"] == 1, "the last attempt")


@pytest.mark.parametrize(
    "command",
    [["false"], ["/no/such/program"], ["sh", "-c", "sleep 60"]],
    ids=["fails", "missing", "hangs"],
)
def test_command_that_fails(tmp_path: Path, command: list[str]) -> None:
    with notifying(tmp_path, command=command, timeout=0.5) as daemon:
        ask(daemon)
        until(lambda: daemon.stats()["notifying"]["failed"] == 1, "the failure")


def test_bug_in_a_call_costs_only_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(notifier, "_post", fail)
    with notifying(tmp_path, url="http://127.0.0.1:1") as daemon:
        ask(daemon)
        until(lambda: daemon.stats()["notifying"]["failed"] == 1, "the failure")
        assert list(daemon.stats()["errors"].values()) == [1]


def test_slow_command_delays_neither_others_nor_the_end(tmp_path: Path) -> None:
    rules = [{"after": 0.0, "command": ["sleep", "60"], "timeout": 60.0}, {"after": 0.0, "command": ["true"]}]
    with running(tmp_path, notify=rules, look_period=0.02) as daemon:
        until(lambda: daemon.daemon._notifier.has_looked, "the first look")
        ask(daemon)
        until(lambda: daemon.stats()["notifying"]["sent"] == 1, "the fast one")


def test_what_waited_before_the_start_calls_nobody(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        ask(daemon)
    with notifying(tmp_path, command=["true"]) as daemon:
        ask_again = event(PermissionRequest, permission_id="q", type="permission", ts=wall_clock(), line=2)
        daemon.commit(commit(ask_again, base=1))
        until(lambda: daemon.stats()["notifying"]["sent"] == 1, "the second question")
        assert daemon.stats()["notifying"]["sent"] == 1


def test_first_rule_of_a_running_daemon_calls_for_nothing_that_happened_before(tmp_path: Path) -> None:
    with running(tmp_path, look_period=0.02) as daemon:
        ask(daemon)
        turn = [event(Turn, "2", state=one, session="2", ts=wall_clock()) for one in ("started", "completed")]
        daemon.commit(commit(*turn, stream="2"))
        rule = NotifyRule(on=("waiting", "done"), after=0.0, command=("true",))
        daemon.call(lambda: setattr(daemon.daemon._notifier, "rules", (rule,)))
        until(lambda: daemon.daemon._notifier.has_looked, "the first look")
        question = event(PermissionRequest, permission_id="q", type="permission", ts=wall_clock(), line=2)
        daemon.commit(commit(question, base=1))
        until(lambda: daemon.stats()["notifying"]["sent"] == 1, "the second question")
        daemon.call(lambda: setattr(daemon.daemon._notifier, "rules", ()))
        assert daemon.stats()["notifying"] == {"rules": 0, "sent": 1, "failed": 0, "dropped": 0}


def spend(daemon: Running, base: int, cost: float | None = None, *quota: QuotaWindow) -> None:
    usage = event(Usage, line=base + 1, scope="step", cost_usd=cost, quota=list(quota) or None, ts=wall_clock())
    daemon.commit(commit(usage, base=base))


def test_costs(tmp_path: Path) -> None:
    """What a session and today cost; each once, and nobody is called for what was over a limit before."""
    rules: list[dict[str, Any]] = [
        {
            "on": ["cost"],
            "session_usd": limit,
            "day_usd": 2 * limit,
            "command": ["sh", "-c", f"cat >> {tmp_path}/{name}"],
        }
        for limit, name in ((1.0, "first"), (2.0, "second"))
    ]
    with running(tmp_path) as daemon:
        daemon.commit(commit(event(Turn, state="started", ts=wall_clock())))
        spend(daemon, 1, 1.5)
    with running(tmp_path, notify=rules, look_period=0.02, usage_period=0.0) as daemon:
        until(lambda: daemon.daemon._notifier.has_looked, "the first look")
        daemon.commit(commit(event(Turn, state="started", line=3, ts=wall_clock()), base=2))
        spend(daemon, 3, 0.6)
        until(lambda: daemon.stats()["notifying"]["sent"] == 2, "the session over $2, and today over $2")
        spend(daemon, 4, 2.1)
        until(lambda: daemon.stats()["notifying"]["sent"] == 3, "today over $4")
    first, second = (map(json.loads, (tmp_path / name).read_text().splitlines()) for name in ("first", "second"))
    assert [(one["title"], one.get("session")) for one in first] == [("Today has cost $2.10", None)]
    assert sorted((one["title"], one["text"]) for one in second) == [
        ("Today has cost $4.20", "The limit is $4.00"),
        ("gemini has cost $2.10", "The limit is $2.00 · session-1"),
    ]


def test_quota(tmp_path: Path) -> None:
    hour = 3_600_000
    ends = wall_clock() + hour
    with server() as (url, received), notifying(tmp_path, on=["quota"], url=url, quota_percent=80, web=True) as daemon:
        daemon.commit(commit(event(Turn, state="started", ts=wall_clock())))
        spend(daemon, 1, None, QuotaWindow(name="five_hour", minutes=300, used_percent=79.0, resets_at=ends))
        spend(daemon, 2, None, QuotaWindow(name="five_hour", minutes=300, used_percent=80.0, resets_at=ends + 1_000))
        message = json.loads(received.get(timeout=30).body)
        spend(daemon, 3, None, QuotaWindow(name="five_hour", minutes=300, used_percent=95.0, resets_at=ends - 1_000))
        spend(daemon, 4, None, QuotaWindow(name="week", minutes=10_080, used_percent=99.0, resets_at=ends))
        assert json.loads(received.get(timeout=30).body)["title"] == "gemini: 99 % of 7 d used"
        later = ends + 5 * hour
        spend(daemon, 5, None, QuotaWindow(name="five_hour", minutes=300, used_percent=81.0, resets_at=later))
        assert json.loads(received.get(timeout=30).body)["title"] == "gemini: 81 % of 5 h used"
        assert daemon.daemon.web is not None
        page = daemon.daemon.web.url
    assert message == {
        "reason": "quota",
        "title": "gemini: 80 % of 5 h used",
        "text": "The limit is 80 %",
        "provider": "gemini",
        "link": f"{page}/usage",
    }


def test_silence(tmp_path: Path) -> None:
    """A session that has an open call is not silent."""
    with server() as (url, received), notifying(tmp_path, on=["idle"], url=url, silent=0.3) as daemon:
        daemon.commit(
            commit(event(Turn, "1", state="started", ts=wall_clock(), session="1"), stream="1"),
            commit(
                event(Turn, "2", state="started", session="2"), call("c", "2", session="2", ts=wall_clock()), stream="2"
            ),
        )
        message = json.loads(received.get(timeout=30).body)
        assert (message["title"], message["session"]) == ("gemini is silent", "1")
        daemon.commit(commit(result("c", "2", session="2", line=2, ts=wall_clock()), stream="2", base=1))
        assert json.loads(received.get(timeout=30).body)["session"] == "2"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "a rule has either `command` or `url`"),
        ({"command": ["true"], "url": "http://a"}, "a rule has either `command` or `url`"),
        ({"url": "ntfy.sh/topic"}, "url looks like https://ntfy.sh/my-topic, not 'ntfy.sh/topic'"),
        ({"url": "file:///etc/passwd"}, "url looks like https://ntfy.sh/my-topic, not 'file:///etc/passwd'"),
        ({"url": "http://[::1"}, "url looks like https://ntfy.sh/my-topic, not 'http://[::1'"),
        ({"url": "http://host:port"}, "url looks like https://ntfy.sh/my-topic, not 'http://host:port'"),
        ({"command": ["true"], "on": ["bored"]}, "invalid enum value 'bored'"),
        ({"command": ["true"], "on": ["cost"]}, "`cost` in `on` and `session_usd` or `day_usd` belong together"),
        ({"command": ["true"], "day_usd": 5}, "`cost` in `on` and `session_usd` or `day_usd` belong together"),
        ({"command": ["true"], "on": ["quota"], "projects": ["shop"]}, "a day and a quota are of all projects"),
        ({"command": ["true"], "when": 5}, "there is no such key"),
    ],
)
def test_wrong_rule(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(None, notify=[rule])
    assert str(raised.value).endswith(message)
