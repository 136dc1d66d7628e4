"""Tokens, from the client's side: each way to show one, and what comes without."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import penstock
from penstock.words import credentials as c
from tests.support.served import WIDE, served

Maker = Callable[..., str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Maker]]:
    """The URL of a server that wants tokens, and what makes one."""
    database = f"sqlite:///{tmp_path_factory.mktemp('tokens')}/app.db"
    with penstock.connect(database) as ps:

        def token(namespace: str, *scopes: str) -> str:
            found, secret, digest = c.new_token()
            kept = c.scopes(scopes or ("operate:*",))
            ps.store.run(c.TokenCreate(found, digest, namespace, "", kept))
            return c.token_text(found, secret)

        with served(database, options=replace(WIDE, auth="tokens")) as server:
            yield server.url, token


def test_every_way_to_show_a_token(
    place: tuple[str, Maker], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, make = place
    token = make("acme")
    with penstock.connect(url, token=token) as ps:
        ps.queue("emails").send("1")
    with penstock.connect(url.replace("//", f"//{token}@")) as ps:
        ps.queue("emails").send("2")
    monkeypatch.setenv("PENSTOCK_TOKEN", token)
    with penstock.connect(url) as ps:
        assert [entry.name for entry in ps.queues()] == ["emails", "emails-dead"]
        assert [m.text() for m in ps.queue("emails").receive(10)] == ["1", "2"]


def test_without_a_good_one_nothing_is_done(place: tuple[str, Maker]) -> None:
    url, make = place
    bad = make("acme")[:-1] + "!"
    for token in (None, bad, "pst_nothing"):
        with penstock.connect(url, token=token) as ps:
            with pytest.raises(penstock.Unauthorized, match="penstock token create") as caught:
                ps.queue("emails").send("x")
            assert bad not in "".join(traceback.format_exception(caught.value))


def test_a_scope_that_is_missing_is_named(place: tuple[str, Maker]) -> None:
    url, make = place
    with penstock.connect(url, token=make("narrow", "send:emails")) as ps:
        ps.queue("emails").send("x")
        with pytest.raises(penstock.Forbidden, match="receive"):
            ps.queue("emails").receive()
        with pytest.raises(penstock.Forbidden):
            ps.queue("others").send("x")


def test_one_name_two_namespaces(place: tuple[str, Maker]) -> None:
    url, make = place
    with (
        penstock.connect(url, token=make("one")) as one,
        penstock.connect(url, token=make("two")) as two,
    ):
        one.queue("jobs").send("mine")
        assert [entry.name for entry in two.queues()] == []
        with pytest.raises(penstock.QueueNotFound, match="no queue 'jobs'"):
            two.queue("jobs").stats()
        two.queue("jobs").create()
        assert list(two.queue("jobs").receive()) == []
        (message,) = one.queue("jobs").receive()
        assert two.queue("jobs").ack([message.receipt]) == (penstock.LeaseLost("gone"),)
        assert message.ack() == penstock.Acked()
