"""The pages in a real browser: what a person does, by clicks; hostile texts; axe's rules.

Chromium comes from Debian; where it cannot be had, the tests without a browser remain.
"""

import asyncio
import contextlib
import importlib.resources
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.dashboard.conftest import Site
from tests.support.ports import free_port
from tests.support.until import until
from turnabout.dashboard.pages import Views
from turnabout.dashboard.routes import Dashboard

DRIVER = shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
PAGES = (
    "", "q/emails", "q/emails/messages", "q/emails/dead?count=1", "q/emails/workers",
    "q/emails/settings", "q/emails-dead/m/1", "schedules", "access", "health",
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DRIVER is None, reason="chromedriver is not installed: Debian's "
                       "chromium-driver; no package index has it"),
]  # fmt: skip


class StaleElement(Exception):
    """The element is no longer in the page."""


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
        if "stale element reference" in answer.text:
            raise StaleElement
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def open(self, url: str) -> None:
        self._ask("POST", f"{self._place}/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a JavaScript expression in the page."""
        body = {"script": f"return {script}", "args": arguments}
        return self._ask("POST", f"{self._place}/execute/sync", body)

    def later(self, script: str) -> Any:
        """The value of a promise in the page."""
        text = f"const done = arguments[arguments.length - 1]; ({script}).then(done, done)"
        return self._ask("POST", f"{self._place}/execute/async", {"script": text, "args": []})

    def until(self, text: str) -> None:
        """Wait here until the page says that: a promise ends with its page, and is never kept."""
        page = "document.body?.innerText ?? ''"  # none while it is loaded
        until(lambda: text in self.run(page), lambda: f"never came: {text}; {self.run(page)}")

    def _act(self, by: str, what: str, act: str, **body: str) -> None:
        """Find and act, again where what changes was put in its place in between."""
        for _ in range(9):
            with contextlib.suppress(StaleElement):
                found = self._ask("POST", f"{self._place}/element", {"using": by, "value": what})
                return self._ask("POST", f"{self._place}/element/{found[ELEMENT]}/{act}", body)
        raise AssertionError(f"never still: {what}")

    def click(self, text: str, kind: str = "*[self::a or self::button or self::summary]") -> None:
        """Click what has that text, as a person would: it must be in sight."""
        self._act("xpath", f"//{kind}[contains(normalize-space(.), '{text}')]", "click")

    def tick(self, selector: str) -> None:
        self._act("css selector", selector, "click")

    def type(self, selector: str, text: str) -> None:
        self._act("css selector", selector, "value", text=text)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        self._ask("POST", f"{self._place}/window/rect", size)

    def log(self) -> list[dict[str, Any]]:
        return self._ask("POST", f"{self._place}/se/log", {"type": "browser"})

    def close(self) -> None:
        self._ask("DELETE", self._place)
        self._client.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    assert DRIVER is not None
    port = free_port()
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


@pytest.fixture
def browser(chromium: Browser, site: Site) -> Iterator[Browser]:
    """Signed in as an operator, at the front page; nothing may go wrong in the page."""
    chromium.resize(*WIDTHS["desk"])
    chromium.open(f"{site.url}/dashboard/")
    with contextlib.suppress(AssertionError):
        chromium.click("Sign out")
    chromium.type("#token", f"{site.tokens['operator']}\n")
    chromium.until("Queues")
    chromium.log()
    yield chromium
    refused = "status of 401"  # the form to sign in is the answer to a request without a token
    assert [m for line in chromium.log() if refused not in (m := line["message"])] == []


def test_the_link_of_the_first_start_signs_in(browser: Browser, site: Site) -> None:
    browser.click("Sign out")
    browser.until("Sign in")
    browser.open(f"{site.url}/dashboard/#token={site.tokens['operator']}")
    browser.until("Queues")
    assert browser.run("location.hash") == ""


def test_a_new_user_finds_who_waits_and_what_failed(browser: Browser, site: Site) -> None:
    assert browser.run("localStorage.length + sessionStorage.length + document.cookie.length") == 0
    browser.click("emails", "a")
    browser.until("Nobody is starved.")
    assert browser.run("document.querySelector('tbody').innerText.includes('\\\\u202e<scr')")
    browser.click("Pause", "tr[@data-key='acme']//button")
    browser.until("acme is paused: nothing of it is handed out")
    assert site.mq.queue("emails").channel("acme").policy().paused
    browser.click("Undo")
    browser.until("acme is as it was before.")
    assert not site.mq.queue("emails").channel("acme").policy().paused
    browser.click("Dead letters")
    browser.until("dead letters in emails-dead")
    browser.click("1", "tbody//th/a")
    browser.until("It died in emails")
    browser.until("Traceback")
    browser.click("Send it back to emails")
    browser.until("1 message was sent back")
    assert browser.run("location.pathname") == "/dashboard/q/emails/m/1"
    browser.until("Try it again now")
    assert site.mq.queue("emails-dead").stats().ready == 1


def test_chosen_rows_and_all_that_match(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/dashboard/q/emails/messages?state=ready")
    before = site.mq.queue("emails").stats().cancelled
    browser.tick("tbody input[type=checkbox]")
    browser.click("Cancel the chosen")
    browser.until("1 message was cancelled.")
    assert site.mq.queue("emails").stats().cancelled == before + 1
    browser.open(f"{site.url}/dashboard/q/emails/dead")
    browser.type("#error", "Traceback")
    browser.click("Count all that match")
    browser.until("2 messages match")
    browser.click("Send back all 2")
    browser.until("2 messages were sent back")
    browser.until("Sent back so far")


def test_limits_settings_schedules_and_tokens(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/dashboard/q/emails?find=acme")
    browser.click("Limits")
    browser.type("details[open] [name=max_concurrency]", "3\n")
    browser.until("acme has max_concurrency 3")
    browser.click("Settings")
    browser.run("document.getElementById('s-lease_seconds').value = ''")
    browser.type("#s-lease_seconds", "2m\n")
    browser.until("Set: lease_seconds")
    browser.click("Schedules")
    browser.click("Run now")
    browser.until("nightly has sent message")
    browser.click("Access")
    browser.type("#t-label", "ci\n")
    browser.until("which is shown this once: tbt_")


def test_what_changes_is_put_in_place(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/dashboard/q/emails")
    site.mq.queue("emails").send("x", channel="just-came")
    browser.until("just-came")


def test_what_takes_long_comes_by_itself(browser: Browser, site: Site, monkeypatch: Any) -> None:
    looks, answers, quick, values = [], [], Views.queues, Dashboard._values

    async def slow(views: Any, caller: Any, request: Any) -> Any:
        looks.append(request.url.query)
        await asyncio.sleep(1)
        return await quick(views, caller, request)

    async def noted(*given: Any) -> Any:
        answers.append(await values(*given))
        return answers[-1]

    monkeypatch.setattr(Views, "queues", slow)
    monkeypatch.setattr(Dashboard, "_values", noted)
    browser.open(f"{site.url}/dashboard/?sort=name")
    browser.until("oldest ready message")
    assert [values is None for values in answers][:2] == [True, False]
    assert looks[:1] == ["sort=name"]
    assert len(looks) < len(answers)


@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_and_no_page_scrolls_sideways(
    browser: Browser, site: Site, width: str
) -> None:
    axe = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    browser.resize(*WIDTHS[width])
    for path in PAGES:
        browser.open(f"{site.url}/dashboard/{path}")
        browser.run(f"(() => {{ {axe} }})()")
        found = browser.later("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
        assert found == [], path
        wide = browser.run("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, path
