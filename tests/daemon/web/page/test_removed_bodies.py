"""A large result that retention has removed is stated as such: on the page, over HTTP, on the socket and by `show`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from tests.cli.command import here, sentence
from tests.daemon.events import commit, message, result
from tests.daemon.running import Running, running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import shown
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import ModelView, OutputRef, ViewBlock

BODY = Random(1).randbytes(1_000_000).hex()
LIMIT = 1_000_000
WHY = "to keep the journal under 1,000,000 bytes (retention_bytes)"


def store(daemon: Running) -> None:
    whole = OutputRef(output_id="s:1:o0", bytes=len(BODY), lines=1, mime_type="text/plain")
    outputs = {"/output/stdout": whole, "/modelView/blocks/0/text": whole}
    view = ModelView(blocks=[ViewBlock(text=BODY[:100])])
    said = result("1", output={"stdout": BODY[:100]}, outputs=outputs, model_view=view)
    daemon.commit(commit(OutputChunk("s:1:o0", 0, BODY.encode(), "text/plain"), said, lines=1, state="ended"))


def words(text: str) -> str:
    return " ".join(text.split())


def test_removed_body_is_stated(daemon: Running, browser: Browser) -> None:
    store(daemon)
    assert "the whole: 2,000,000 bytes" in shown(browser, "/events/1").text
    assert WHY not in shown(browser, "/events/1").text
    assert daemon.expire(0, LIMIT) == 0

    text = words(shown(browser, "/events/1").text)
    assert text.count("bytes in all; the whole was removed on 20") == 2  # in its card, for the user and the model
    assert text.count("the whole, 2,000,000 bytes, was removed on 20") == 2  # of what is cut in the event
    assert WHY in text
    assert "the whole: 2,000,000 bytes" not in text
    answer = browser.get("/api/outputs/s:1:o0")
    assert answer.status == 410
    assert WHY in answer.body.decode()
    [reason] = browser.get("/api/events/1").json["removedOutputs"].values()
    assert reason.startswith("was removed on 20")
    assert reason.endswith(WHY)


def test_removed_body_is_stated_by_show(daemon: Running) -> None:
    store(daemon)
    assert here("show", "--socket", daemon.path, 1).stderr == b""
    daemon.expire(0, LIMIT)

    for view in ("raw", "assistant", "display"):
        printed = here("show", "--socket", daemon.path, 1, "--view", view)
        assert printed.returncode == 0
        assert sentence(printed).startswith("output s:1:o0 was removed on 20")
        assert sentence(printed).endswith(WHY)
        assert json.loads(printed.stdout)["kind"] == "tool-result"


def test_body_that_is_lost_otherwise_is_not_called_removed(tmp_path: Path) -> None:
    """After retention has removed another one of its stream, and though the stream goes on."""
    first, second = (
        OutputChunk(f"s:{line}:o0", 0, BODY[half].encode(), "text/plain")
        for line, half in ((1, slice(LIMIT)), (2, slice(LIMIT, None)))
    )
    with running(tmp_path) as daemon:
        daemon.commit(commit(first, message("one"), second, message("two", line=2), lines=2, state="ended"))
        daemon.expire(0, LIMIT)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database:
        assert database.execute("SELECT output_id FROM bodies").fetchall() == [("s:2:o0",)]
        database.execute("DELETE FROM bodies")
        database.commit()
    with running(tmp_path) as daemon:
        assert "was removed on 20" in refusal(daemon, "s:1:o0")
        assert refusal(daemon, "s:2:o0") == "output 's:2:o0' is missing in the journal, though its event is there"
        daemon.commit(commit(message("three", line=3), base=2, lines=3))
        assert "was removed on 20" in refusal(daemon, "s:1:o0")


def refusal(daemon: Running, output_id: str) -> str:
    with daemon.connect() as wire:
        wire.send("output", id=1, outputId=output_id)
        error = wire.until("reply")[-1]["error"]
    assert error["code"] == "expired"
    text: str = error["message"]
    return text
