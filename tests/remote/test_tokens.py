"""Tokens, from the client's side: each way to show one, and what comes without."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import turnabout
from tests.support.served import WIDE, served
from turnabout.server import verbs as c

Maker = Callable[..., str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Maker]]:
    """The URL of a server that wants tokens, and what makes one."""
    database = f"sqlite:///{tmp_path_factory.mktemp('tokens')}/app.db"
    with turnabout.connect(database) as mq:

        def token(namespace: str, *scopes: str) -> str:
            found, secret, digest = c.new_token()
            kept = c.scopes(scopes or ("operate:*",))
            mq.store.run(c.TokenCreate(found, digest, namespace, "", kept))
            return c.token_text(found, secret)

        with served(database, options=replace(WIDE, auth="tokens")) as server:
            yield server.url, token


def test_every_way_to_show_a_token(
    place: tuple[str, Maker], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, make = place
    token = make("acme")
    with turnabout.connect(url, token=token) as mq:
        mq.queue("emails").send("1")
    with turnabout.connect(url.replace("//", f"//{token}@")) as mq:
        mq.queue("emails").send("2")
    monkeypatch.setenv("TURNABOUT_TOKEN", token)
    with turnabout.connect(url) as mq:
        assert [entry.name for entry in mq.queues()] == ["emails", "emails-dead"]
        assert [m.text() for m in mq.queue("emails").receive(10)] == ["1", "2"]


def test_without_a_good_one_nothing_is_done(place: tuple[str, Maker]) -> None:
    url, make = place
    bad = make("acme")[:-1] + "!"
    for token in (None, bad, "tbt_nothing"):
        with turnabout.connect(url, token=token) as mq:
            with pytest.raises(turnabout.Unauthorized, match="turnabout token create") as caught:
                mq.queue("emails").send("x")
            assert bad not in "".join(traceback.format_exception(caught.value))


def test_a_scope_that_is_missing_is_named(place: tuple[str, Maker]) -> None:
    url, make = place
    with turnabout.connect(url, token=make("narrow", "send:emails")) as mq:
        mq.queue("emails").send("x")
        with pytest.raises(turnabout.Forbidden, match="receive"):
            mq.queue("emails").receive()
        with pytest.raises(turnabout.Forbidden):
            mq.queue("others").send("x")
