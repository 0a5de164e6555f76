"""`/metrics`, read by the parser of Prometheus."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.daemon.events import call, commit, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tooltap import __version__


def test_metrics_have_prometheus_format(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("a"), call("1")), commit(message("b", "t"), stream="t", state="ended"))
    wire = daemon.subscribe(after="now")
    wire.until("live")

    answer = browser.get("/metrics")
    families = {one.name: one for one in text_string_to_metric_families(answer.body.decode())}

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    values = {
        (sample.name, *sample.labels.values()): sample.value for one in families.values() for sample in one.samples
    }
    assert values["tooltap_info", __version__] == 1
    assert values["tooltap_journal_events_total",] == 3
    assert values["tooltap_journal_commits_total",] == 2
    assert values["tooltap_journal_latest_seq",] == 3
    assert (values["tooltap_streams", "open"], values["tooltap_streams", "ended"]) == (1, 1)
    assert (values["tooltap_subscribers",], values["tooltap_subscribers_behind",]) == (1, 0)
    assert values["tooltap_connections",] == 1
    assert 0 < values["tooltap_uptime_seconds",] < 1_000
    assert values["tooltap_web_connections",] == 1
    for family in families.values():
        assert family.name.startswith("tooltap_")
        assert re.fullmatch(r"[A-Z1].*\.", family.documentation)
        assert family.type in ("counter", "gauge")
        assert (family.type == "counter") == all(one.name.endswith("_total") for one in family.samples)


def test_counters_count(daemon: Running, browser: Browser) -> None:
    for status, times in ((200, 3), (403, 2), (404, 1)):
        for _ in range(times):
            address, headers = ("/no", {}) if status == 404 else ("/healthz", {"Host": "no"} if status == 403 else {})
            assert browser.get(address, headers).status == status
    families = text_string_to_metric_families(browser.get("/metrics").body.decode())

    answers = next(one for one in families if one.name == "tooltap_web_answers")
    assert {one.labels["code"]: one.value for one in answers.samples} == {"200": 3, "403": 2, "404": 1}


def test_labels_have_no_foreign_values(daemon: Running, browser: Browser) -> None:
    """The number of time series does not depend on streams, sessions and tools."""
    browser.get("/metrics")
    before = browser.get("/metrics").body.count(b"\n")
    for number in range(50):
        stream = f"s{number}"
        daemon.commit(commit(call("1", stream, name=f"Tool{number}", session=stream), stream=stream))

    assert browser.get("/metrics").body.count(b"\n") == before
