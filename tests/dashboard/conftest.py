"""A server with something to see, and browsers' sessions at it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

import turnabout
from tests.support.served import WIDE, served
from turnabout import LeasedMessage, Note, Policy, WorkerState
from turnabout.server.verbs import TokenCreate, new_token, scopes, token_text
from turnabout.words.verbs import WorkerReport

TRACE = f"00-{'ab' * 16}-{'cd' * 8}-01"
EVIL = "\u202e<script>alert(1)</script>'\"&\x1b"


@dataclass
class Site:
    """The server's address, its database, and tokens by what they may do."""

    url: str
    mq: Any
    tokens: dict[str, str]
    sessions: list["Session"] = field(default_factory=list)

    def session(self, who: str = "operator") -> "Session":
        session = Session(self.url)
        self.sessions.append(session)
        answer = session.post("sign-in", token=self.tokens[who])
        assert answer.status_code == 303, answer.text
        return session


class Session:
    """A browser without scripts: it keeps cookies, and sends forms as a page of ours does."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx2.Client(base_url=f"{url}/dashboard/")

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def post(self, path: str, **fields: Any) -> httpx2.Response:
        return self.client.post(path, data=fields, headers={"Origin": self.url})

    def do(self, act: str, **fields: Any) -> str:
        """Send a form; the page that comes after it."""
        answer = self.post(f"do/{act}", **fields)
        assert answer.status_code == 303, answer.text
        return self.get(answer.headers["location"].removeprefix("/dashboard/"))

    def undo(self, page: str) -> str:
        """Click Undo on a page."""
        form = re.search(r'class="notice".*?action="([^"]+)">(.*?)</form>', page, re.DOTALL)
        assert form, page
        fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form[2]))
        plain = {name: value.replace("&#34;", '"') for name, value in fields.items()}
        return self.do(form[1].rpartition("/")[2], **plain)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    database = f"sqlite:///{tmp_path}/app.db"
    rights = {
        "operator": ("", ["operate:*", "totals:*"]),
        "worker": ("", ["consume:*"]),
        "tenant": ("acme", ["operate:*"]),
    }
    with turnabout.connect(database) as mq:
        tokens = {}
        for who, (namespace, given) in rights.items():
            id_, secret, digest = new_token()
            mq.store.run(TokenCreate(id_, digest, namespace, who, scopes(given)))
            tokens[who] = token_text(id_, secret)
        fill(mq)
        options = replace(WIDE, auth="tokens", trace_url="http://traces/{trace_id}?x")
        with served(database, options=options) as server:
            site = Site(server.url, mq, tokens)
            yield site
            for session in site.sessions:
                session.client.close()


def fill(mq: Any) -> None:
    emails = mq.queue("emails")
    emails.create(max_attempts=2, backoff_seconds=0)
    for name in ("acme", "globex", EVIL[:20]):
        for number in range(4):
            emails.send(
                {"to": EVIL, "n": number},
                channel=name,
                headers={"x-from": "<b>me</b>", "traceparent": TRACE},
            )
    while emails.stats().dead < 2:
        for message in emails.receive(1):
            message.fail(f"Traceback\n{EVIL}")
    emails.channel("globex").set_policy(Policy(max_concurrency=1, weight=2))
    (leased,) = emails.receive(1, lease_seconds=600)
    emails.extend([leased.receipt], note=Note(f"page {EVIL[:10]}", 0.4))
    state = WorkerState(
        "web-1", "turnabout 1", 90_000, 4, 17, 2, (LeasedMessage(leased.id, 3_000),)
    )
    mq.store.run(WorkerReport("emails", f"mailer@web-1:7{EVIL[:20]}", state))
    mq.schedules.set("nightly", "emails", {"x": EVIL}, cron="0 3 * * *")


@pytest.fixture
def page_has() -> Callable[..., None]:
    def check(page: str, *texts: str) -> None:
        plain = re.sub(r"<[^>]+>", " ", page)
        for text in texts:
            assert text in re.sub(r"\s+", " ", plain), f"{text!r} is not in {plain[-3000:]}"

    return check
