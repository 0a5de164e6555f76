"""Firefox and WebKit, as installed on the system, each with a window that a test drives.

Playwright would download its own builds of both. Firefox speaks Marionette (lines of JSON, each preceded by its
length), WebKitGTK has a WebDriver; the commands of the two are the same.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import httpx

from tests.browser.chromium import TIMEOUT
from tests.daemon.web.browsing import free_port
from tests.programs import found

__all__ = ["ENGINES", "Engine", "Key"]

SECONDS = TIMEOUT / 1_000
SCREEN = "1600x1200x24"
ERRORS = """
return Services.console.getMessageArray()
    .filter((one) => one instanceof Ci.nsIScriptError && !(one.flags & Ci.nsIScriptError.warningFlag))
    .filter((one) => one.sourceName.startsWith(arguments[0]))
    .map((one) => one.message);
"""
WATCH = """
if (!window.watched) {
    window.watched = true;
    const note = (words) => { sessionStorage.wrong = `${sessionStorage.wrong ?? ""}${words}\\n`; };
    // What a ResizeObserver makes of a resize that it has caused itself comes with the next frame: that is no error.
    addEventListener("error", (event) => event.message.startsWith("ResizeObserver loop") || note(event.message));
    addEventListener("unhandledrejection", (event) => note(event.reason));
    addEventListener("securitypolicyviolation", (event) => note(`${event.violatedDirective} ${event.blockedURI}`));
    console.error = (...words) => note(words.join(" "));
}
"""
PREFERENCES = """
user_pref("marionette.port", 0);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("browser.aboutwelcome.enabled", false);
"""


class Key:
    """WebDriver's codes for keys that are no characters."""

    ESCAPE = "\ue00c"
    ENTER = "\ue007"
    CONTROL = "\ue009"
    HOME = "\ue011"
    PAGE_UP = "\ue00e"
    PAGE_DOWN = "\ue00f"


class Engine(ABC):
    """A browser window with a profile of its own. Use it in `with`."""

    PROGRAMS: tuple[str, ...]

    @abstractmethod
    def open(self, address: str) -> None: ...

    @abstractmethod
    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript as the body of a function, and return its value."""

    @abstractmethod
    def resize(self, width: int, height: int) -> None: ...

    @abstractmethod
    def errors(self, site: str) -> list[str]:
        """Return the errors of pages of this site, those of the Content-Security-Policy included."""

    @abstractmethod
    def quit(self) -> None: ...

    @abstractmethod
    def _perform(self, actions: list[dict[str, Any]]) -> None: ...

    def press(self, *keys: str) -> None:
        """Press keys together, such as `Key.CONTROL` and `k`."""
        steps = [*(("keyDown", key) for key in keys), *(("keyUp", key) for key in reversed(keys))]
        actions = [{"type": kind, "value": key} for kind, key in steps]
        self._perform([{"type": "key", "id": "keyboard", "actions": actions}])

    def wait(self, script: str, *arguments: Any) -> None:
        """Wait until JavaScript, run as the body of a function, returns something true."""
        deadline = time.monotonic() + SECONDS
        while not self.run(script, *arguments):
            assert time.monotonic() < deadline, f"{script}\n{self.run('return document.body.innerText')}"
            time.sleep(0.05)  # between questions


class Firefox(Engine):
    PROGRAMS = ("firefox-esr|firefox",)

    def __init__(self, profile: Path) -> None:
        (profile / "user.js").write_text(PREFERENCES)
        arguments = [
            "--marionette",
            "--headless",
            "--no-remote",
            "-remote-allow-system-access",
            "--profile",
            str(profile),
        ]
        environment = {**os.environ, "HOME": str(profile)}
        self._process = subprocess.Popen(
            [*map(found, self.PROGRAMS), *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = int(_content(profile / "MarionetteActivePort"))
            self._connection = socket.create_connection(("127.0.0.1", port), SECONDS)
            self._answers = self._connection.makefile("rb")
            self._read()  # its greeting
            self._command("WebDriver:NewSession")
        except BaseException:
            self._process.kill()
            raise

    def open(self, address: str) -> None:
        self._command("WebDriver:Navigate", url=address)

    def run(self, script: str, *arguments: Any) -> Any:
        return self._command("WebDriver:ExecuteScript", script=script, args=arguments)["value"]

    def resize(self, width: int, height: int) -> None:
        self._command("WebDriver:SetWindowRect", width=width, height=height)

    def errors(self, site: str) -> list[str]:
        self._command("Marionette:SetContext", value="chrome")
        found: list[str] = self.run(ERRORS, site)
        self._command("Marionette:SetContext", value="content")
        return found

    def quit(self) -> None:
        self._answers.close()
        self._connection.close()
        self._process.terminate()
        self._process.wait()

    def _perform(self, actions: list[dict[str, Any]]) -> None:
        self._command("WebDriver:PerformActions", actions=actions)

    def _command(self, name: str, **parameters: Any) -> Any:
        message = json.dumps([0, 1, name, parameters]).encode()
        self._connection.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def _read(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self._answers.read(1)
        return json.loads(self._answers.read(int(length[:-1])))


class WebKit(Engine):
    BROWSER = str(next(iter(sorted(Path("/usr/lib").glob("*/webkit2gtk-4*/MiniBrowser"))), "MiniBrowser"))
    PROGRAMS = ("WebKitWebDriver", "Xvfb", BROWSER)

    def __init__(self, profile: Path) -> None:
        display, port = profile / "display", free_port()
        with display.open("wb") as file:
            self._screen = subprocess.Popen(
                ["Xvfb", "-displayfd", "1", "-screen", "0", SCREEN], stdout=file, stderr=subprocess.DEVNULL
            )
        environment = {**os.environ, "DISPLAY": f":{_content(display)}", "HOME": str(profile)}
        self._driver = subprocess.Popen(
            ["WebKitWebDriver", f"--port={port}"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        transport = httpx.HTTPTransport(retries=10)  # until it listens
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS, transport=transport)
        options = {"binary": self.BROWSER, "args": ["--automation"]}
        wanted = {"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}}
        self._session = ""
        self._session = f"/session/{self._post('/session', wanted)['sessionId']}"

    def open(self, address: str) -> None:
        self._post("/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._post("/execute/sync", {"script": WATCH + script, "args": arguments})

    def resize(self, width: int, height: int) -> None:
        self._post("/window/rect", {"width": width, "height": height})

    def errors(self, site: str) -> list[str]:
        """Return the errors since the first script was run in the page."""
        return str(self.run("return sessionStorage.wrong ?? ''")).splitlines()

    def quit(self) -> None:
        self._client.delete(self._session)
        self._client.close()
        for process in (self._driver, self._screen):
            process.terminate()
            process.wait()

    def _perform(self, actions: list[dict[str, Any]]) -> None:
        self._post("/actions", {"actions": actions})

    def _post(self, path: str, parameters: dict[str, Any]) -> Any:
        answer = self._client.post(f"{self._session}{path}", json=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]


ENGINES: dict[str, type[Firefox | WebKit]] = {"firefox": Firefox, "webkit": WebKit}


def _content(path: Path) -> str:
    """Wait until a file has content, and return it."""
    deadline = time.monotonic() + SECONDS
    while not path.exists() or not (text := path.read_text().strip()):
        assert time.monotonic() < deadline, f"{path} is empty"
        time.sleep(0.05)  # between looks
    return text
