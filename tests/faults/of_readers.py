"""Fault scenarios of readers: browsers, programs and commands."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from tests.faults.place import FAILED, MISTAKEN, PATIENCE, STOPPED, Broken, recording
from tests.faults.scenario import AGENT, Scenario

__all__ = ["Commands", "Web"]


class Web(Scenario):
    """Pages, the API and server-sent events."""

    arguments: ClassVar = ["--web", "127.0.0.1:0"]

    def before(self) -> None:
        self.place.ensure()
        self.stream = self.place.stream(recording(AGENT))
        self.complete(self.stream)
        self._session = self._events(self.stream)[-1]["session"]
        self._url = urlsplit(self.place.stats()["web"]["url"])
        self._token = Path(self.place.stats()["web"]["tokenFile"]).read_text().strip()

    def act(self) -> list[str]:
        return [sentence for target in self._targets() for sentence in self._get(target)]

    def after(self) -> None:
        self._url = urlsplit(self.place.stats()["web"]["url"])
        for target in self._targets():
            if failed := self._get(target):
                raise Broken(f"GET {target} fails afterwards: {failed[0]}")
        self.check(self.stream)

    def _targets(self) -> list[str]:
        after = max(0, self.place.last - 5)
        return [
            "/",
            f"/sessions/{self._session}",
            "/api/sessions",
            f"/api/events?after={after}",
            f"/api/events/{self.place.last or 1}",
            "/healthz",
        ]

    def _get(self, target: str) -> list[str]:
        connection = HTTPConnection(self._url.hostname or "", self._url.port or 0, timeout=PATIENCE)
        try:
            connection.request("GET", target, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            body = answer.read()
        except TimeoutError:
            raise Broken(f"GET {target} is not answered") from None
        except (OSError, HTTPException) as error:
            return [f"cut off: {error!r}"]
        finally:
            connection.close()
        if answer.status == 200:
            return []
        if b"Traceback" in body:
            raise Broken(f"GET {target} shows a traceback")
        if not body:
            raise Broken(f"GET {target} says {answer.status} and nothing more")
        return [body.decode()]


class Commands(Scenario):
    """Commands that ask the daemon, or delete in its journal."""

    deletes = True

    def before(self) -> None:
        place = self.place
        super().before()
        self.stream = place.stream(recording(AGENT))
        self.complete(self.stream)
        self._session = self._events(self.stream)[-1]["session"]
        place.catch_up(place.stats()["journal"]["latest"])
        place.seen.clear()
        self._page = place.folder / f"page-{place.streams}.html"

    def act(self) -> list[str]:
        place = self.place
        failed = []
        for arguments in (
            ("sessions", "--json"),
            ("tail", "--no-follow", "--after", "start"),
            ("export", "--html", self._session, "--output", self._page, "--jobs", "1"),
            ("sessions", "rm", self._session),
        ):
            output = place.folder / "printed"
            output.unlink(missing_ok=True)
            command = place.launch(*arguments, "--socket", place.socket, output=output)
            code = command.wait(PATIENCE)
            if code is None:
                command.kill()
                raise Broken(f"`tooltap {arguments[0]}` does not end")
            if code not in (STOPPED, FAILED, MISTAKEN) and code >= 0:
                raise Broken(f"`tooltap {arguments[0]}` ends with {code}")
            if code:
                failed.append(f"exit code {code}")
            elif arguments[0] == "export" and b"</html>" not in self._page.read_bytes():
                raise Broken("half a page was exported")
        return failed

    def after(self) -> None:
        place = self.place
        if self._events(self.stream):
            place.ask("remove", session=self._session)
        if self._events(self.stream):
            raise Broken("the session is still there")
