"""The pages without a browser: what they show, what their forms do, and to whom."""

import asyncio
import re
import threading
import time
from typing import Any

import pytest

from tests.dashboard.conftest import EVIL, TRACE, Session, Site
from turnabout import Policy, Rate
from turnabout.dashboard.pages import Views
from turnabout.server.verbs import TokenFind, TokenList, signing_secret
from turnabout.words.urls import TOKEN_PREFIX
from turnabout.words.workers import this_process

PAGES = (
    "", "?sort=dead&find=em", "q/emails", "q/emails?sort=oldest&find=a", "q/emails/messages",
    "q/emails/messages?state=ended", "q/emails/messages?state=leased&channel=acme", "q/emails/dead",
    "q/emails/dead?count=1", "q/emails/workers", "q/emails/settings", "q/emails/m/1",
    "q/emails-dead/m/1", "q/emails/m/5", "schedules", "access", "health",
)  # fmt: skip


def test_each_page_shows_hostile_text_as_text(site: Site) -> None:
    session = site.session()
    for path in PAGES:
        page = session.get(path)
        assert "<script>alert" not in page, path
        assert not {"\u202e", "\x1b"} & set(page), path
        assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page), path
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), path
    assert r"\u202e&lt;script&gt;alert(1)&lt;/script&gt;" in session.get("q/emails/m/5")


def test_fairness_and_what_holds_a_channel(site: Site, page_has: Any) -> None:
    site.mq.queue("emails").pause(reason="by hand")
    session = site.session()
    page_has(session.get("q/emails"), "paused: by hand", "weight 2", "Limits hold all that waits")
    page = session.do("resume_queue", queue="emails", back="/dashboard/q/emails")
    page_has(page, "emails is handed out again.", "Nobody is starved.")


def test_a_channel_is_paused_limited_and_undone(site: Site, page_has: Any) -> None:
    session, channel = site.session(), site.mq.queue("emails").channel("acme")
    where = {"queue": "emails", "channel": "acme", "back": "/dashboard/q/emails"}
    page = session.do("pause", **where)
    page_has(page, "acme is paused: nothing of it is handed out", "paused in the dashboard")
    assert channel.policy().paused
    page_has(session.undo(page), "acme is as it was before.")
    assert channel.policy() == Policy()
    page = session.do("limit", **where, weight="3", rate="10/2s", max_size="", max_concurrency="4")
    page_has(page, "acme has weight 3, max_concurrency 4")
    assert channel.policy() == Policy(weight=3, max_concurrency=4, rate=Rate(10, 2))
    session.undo(page)
    assert channel.policy() == Policy()
    answer = session.post("do/limit", **where, weight="many")
    assert answer.status_code == 400
    page_has(answer.text, "weight: &#39;many&#39; is not a whole number")
    for wrong in ({"rate": "9" * 5_000}, {"rate": "x/1s"}, {"rate": "1/soon"}):
        assert session.post("do/limit", **where, **wrong).status_code == 400
    for wrong in ("", "[]", '{"weight": 0}', '{"rate": {"count": "x"}}'):
        assert session.post("do/restore", **where, policy=wrong).status_code == 400


def test_a_purge_wants_the_name(site: Site, page_has: Any) -> None:
    session = site.session()
    where = {"queue": "emails", "channel": "globex", "back": "/dashboard/q/emails"}
    answer = session.post("do/purge", **where, sure="yes")
    assert answer.status_code == 400
    page_has(answer.text, "nothing was done: type globex")
    page_has(session.do("purge", **where, sure="globex"), "messages of globex were cancelled.")
    assert "globex" not in {one.channel for one in site.mq.queue("emails").peek(state="ready")}


def test_why_did_it_fail_and_do_it_again(site: Site, page_has: Any) -> None:
    session, back = site.session(), "/dashboard/q/emails/dead"
    dead = site.mq.queue("emails-dead")
    letter = dead.peek()[0]
    page = session.get(f"q/emails/m/{letter.id}")
    page_has(page, "It died in emails", "Attempt 1", "Attempt 2", "Traceback", "x-from")
    page_has(session.get("q/emails/dead"), "2 dead letters in", "By error")
    page_has(session.get("q/emails/dead?count=1&error=Trace"), "2 messages match")
    which = {"queue": "emails-dead", "back": back}
    page_has(session.do("send_back", **which, which="ids", id=letter.id), "1 message was sent back")
    page_has(session.do("send_back", **which, which="all", error="Trace"), "1 message was sent")
    assert dead.stats().ready == 0
    page_has(session.get(f"q/emails-dead/m/{letter.id}", 400), "or not any more")
    page_has(session.get("q/emails/dead"), "Sent back so far", "token operator")
    answer = session.post("do/send_back", **which, which="ids")
    page_has(answer.text, "choose at least one message")


def test_messages_are_retried_and_cancelled(site: Site, page_has: Any) -> None:
    session, emails = site.session(), site.mq.queue("emails")
    ids = [one.id for one in emails.peek(state="ready")][:2]
    where = {"queue": "emails", "back": "/dashboard/q/emails/messages"}
    page_has(session.do("cancel", **where, id=ids), "2 messages were cancelled.")
    (later,) = [emails.send("x", delay_seconds=60).id]
    page_has(
        session.do("retry", **where, id=later), "1 message was made ready for another attempt."
    )
    assert emails.peek(1, after_id=later - 1)[0].state == "ready"
    leased = emails.peek(state="leased")[0].id
    page_has(session.do("cancel", **where, id=leased), "workers are asked to stop")


def test_who_works_and_what_each_holds(site: Site, page_has: Any) -> None:
    session = site.session()
    (leased,) = site.mq.queue("emails").peek(state="leased")
    page = session.get("q/emails/workers")
    page_has(page, "mailer@web-1:7", "turnabout 1", "1m 30s 1 of 4", "17", "40 %")
    rows = page[page.index("Leased messages</h2>") :]
    page_has(rows, f"{leased.id} {leased.channel} mailer@web-1:7")


def test_a_message_has_each_attempt_and_its_trace(site: Site, page_has: Any) -> None:
    (letter, *_) = site.mq.queue("emails-dead").peek()
    page = site.session().get(f"q/emails-dead/m/{letter.id}")
    page_has(page, "Attempt 1,", "Attempt 2,", f"by {this_process()}", "Traceback")
    moments = page[page.index("What happened") : page.index("Failed attempts")]
    told = re.findall(r"</span> ([a-z]+ ?\d?[a-z ]*)", moments)
    assert [one.partition(" by ")[0] for one in told] == [
        "sent", "attempt 1 began", "attempt 1 failed", "attempt 2 began", "attempt 2 failed",
        "died in emails",
    ]  # fmt: skip
    assert f'href="http://traces/{TRACE[3:35]}?x"' in page


def test_a_page_hears_of_changes(site: Site) -> None:
    session, emails = site.session(), site.mq.queue("emails")
    first = session.client.get("q/emails/changed").json()
    assert session.client.get("q/emails/changed").json() == first
    asked = f"q/emails/changed?seen={first['seen']}"
    began = time.monotonic()
    sending = threading.Timer(0.2, emails.send, ("x",))
    sending.start()
    later = session.client.get(asked, timeout=30).json()
    sending.join()
    assert later["seen"] != first["seen"]
    assert time.monotonic() - began < 8, "it was told, not only looked at in the end"
    assert session.client.get("q/nothing/changed?seen=x").status_code == 404
    session.client.cookies.clear()
    assert session.client.get("q/emails/changed").status_code == 401


def test_a_page_that_takes_long_says_so_first(site: Site, page_has: Any, monkeypatch: Any) -> None:
    counted, looks, quick = threading.Event(), [], Views.queues

    async def slow(views: Any, caller: Any, request: Any) -> Any:
        looks.append(request.url.query)
        await asyncio.to_thread(counted.wait, 30)
        return await quick(views, caller, request)

    monkeypatch.setattr(Views, "queues", slow)
    session = site.session()
    browser = {"sec-fetch-dest": "document"}
    first = session.client.get("?sort=name", headers=browser).text
    page_has(first, "There is much to count")
    assert 'http-equiv="refresh" content="0"' in first
    other = site.session("worker").client.get("?sort=name", headers=browser).text
    page_has(other, "There is much to count")
    counted.set()
    then = session.client.get("?sort=name", headers=browser).text
    page_has(then, "emails")
    assert "refresh" not in then
    assert looks == ["sort=name", "sort=name"], "the second request got what the first has begun"
    page_has(session.client.get("?sort=name", headers=browser).text, "emails")
    assert len(looks) == 3


def test_schedules(site: Site, page_has: Any) -> None:
    session = site.session()
    where = {"name": "nightly", "back": "/dashboard/schedules"}
    page_has(session.get("schedules"), "nightly", "0 3 * * *", "Run now")
    page = session.do("schedule", **where, what="pause")
    page_has(page, "nightly is paused.")
    page_has(session.undo(page), "nightly runs again.")
    page_has(session.do("schedule", **where, what="run"), "has sent message")
    page_has(session.do("schedule", **where, what="delete", sure="nightly"), "No schedules")


def test_settings_are_changed(site: Site, page_has: Any) -> None:
    session = site.session()
    where = {"queue": "emails", "back": "/dashboard/q/emails/settings"}
    page = session.do("configure", **where, lease_seconds="2m", max_attempts="", events="all")
    page_has(page, "lease_seconds 120", "max_attempts None", "events all")
    settings = site.mq.queue("emails").settings()
    assert (settings.lease_seconds, settings.max_attempts, settings.events) == (120, None, "all")
    answer = session.post("do/configure", **where, lease_seconds="soon")
    assert answer.status_code == 400


def test_an_operator_sees_tenants_and_makes_tokens(site: Site, page_has: Any) -> None:
    session = site.session()
    page = session.do("make_token", label="ci", namespace="acme", scopes="operate:*",
                      days="1", back="/dashboard/access")  # fmt: skip
    token = re.search(TOKEN_PREFIX + r"[\w.-]+", page)
    page_has(page, "which is shown this once", "acme")
    assert token is not None
    assert token[0] not in session.get("access")
    site.tokens["new"] = token[0]
    tenant = site.session("new")
    site.mq.queue("acme/orders").send("x")
    page_has(tenant.get(""), "orders")
    page_has(session.get("n/acme/q/orders"), "namespace acme")
    assert "orders" not in session.get("")
    assert tenant.client.get("n/other/").status_code == 403
    assert tenant.client.get("access").status_code == 403
    assert tenant.post("do/make_token", label="x", scopes="operate:*").status_code == 403
    page = session.do("set_namespace", namespace="acme", max_messages="7", back="/dashboard/access")
    page_has(page, "The quotas of acme are set.")
    page = session.do(
        "make_token", label="sdk", scopes="consume:* sign:*", back="/dashboard/access"
    )
    _, after, keys = page.partition("; for clients of SQS, key id ")
    key_id, _, rest = keys.partition(", secret ")
    assert after
    assert f"{TOKEN_PREFIX}{key_id}_" in page
    found = site.mq.store.run(TokenFind(key_id))
    assert found is not None
    assert rest.startswith(signing_secret(found.digest))
    (made,) = [one for one in re.findall(r'name="token" value="(\w+)"', page) if one in token[0]]
    page_has(session.do("revoke_token", token=made, back="/dashboard/access"), "ci is revoked")
    (revoked,) = [one for one in site.mq.store.run(TokenList()) if one.id == made]
    assert revoked.revoked_at is not None


def test_health_is_what_doctor_finds(site: Site, page_has: Any) -> None:
    page_has(site.session().get("health"), "check", "no channel is starved")
    assert site.session("worker").client.get("health").status_code == 403


def test_what_a_token_may_not_do_is_not_offered(site: Site) -> None:
    worker = site.session("worker")
    page = worker.get("q/emails")
    assert not re.search("Pause|Purge|Limits", page)
    answer = worker.post("do/pause", queue="emails", channel="acme")
    assert answer.status_code == 403
    assert not site.mq.queue("emails").channel("acme").policy().paused


# --- the session ----------------------------------------------------------------------------------


def test_without_a_token_there_is_only_the_form(site: Site, page_has: Any) -> None:
    stranger = Session(site.url)
    site.sessions.append(stranger)
    page = stranger.get("q/emails", 401)
    page_has(page, "Token", "turnabout token create")
    assert "acme" not in page
    for wrong in ("", "nonsense", "\u202e", site.tokens["worker"][:-1]):
        assert stranger.post("sign-in", token=wrong).status_code == 401
    assert stranger.post("do/pause", queue="emails", channel="acme").status_code == 401


def test_the_cookie_is_kept_from_scripts_and_other_sites(site: Site) -> None:
    session = Session(site.url)
    site.sessions.append(session)
    answer = session.post("sign-in", token=site.tokens["operator"], back="//evil.example/")
    cookie = answer.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/dashboard"} <= set(cookie.split("; "))
    assert answer.headers["location"] == "/dashboard/"
    answer = session.post("sign-out")
    assert 'turnabout_token=""' in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_no_other_site_can_act_by_the_session(site: Site, headers: dict[str, str]) -> None:
    session = site.session()
    data = {"queue": "emails", "channel": "acme"}
    answer = session.client.post("do/pause", data=data, headers=headers)
    assert answer.status_code == 403
    answer = session.client.get("do/pause?queue=emails&channel=acme")
    assert answer.status_code == 405
    assert not site.mq.queue("emails").channel("acme").policy().paused


def test_a_link_on_another_site_leads_in(site: Site) -> None:
    """The browser sends no cookie then: the page asks for itself once more."""
    stranger = Session(site.url)
    site.sessions.append(stranger)
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    page = stranger.client.get("q/emails", headers=headers).text
    assert '<meta http-equiv="refresh" content="0">' in page
    assert "refresh" not in stranger.get("q/emails", 401)


def test_a_missing_queue_or_message_is_said_in_words(site: Site, page_has: Any) -> None:
    session = site.session()
    page_has(session.get("q/none", 404), "That did not work", "there is no queue")
    page_has(session.get("q/emails/m/999", 400), "message 999 is not in emails")
    page_has(session.get(f"q/emails?sort={EVIL[:3]}", 400), "sort is one of")
    assert session.client.get("nothing").status_code == 404
