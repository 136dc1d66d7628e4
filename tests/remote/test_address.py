"""The URL of a server: what it may say, and that its token is never shown."""

import traceback

import pytest

import turnabout
from tests.support.each import each
from turnabout.remote.address import Address, parse

TOKEN = "tbt_abcdefghijkl_c2VjcmV0"


def test_what_a_url_says() -> None:
    address = parse(
        "https://queues.example.org:8443/base/?timeout_seconds=60&connect_seconds=2.5"
        "&max_connections=7"
    )
    assert address == Address("https://queues.example.org:8443/base", None, 60.0, 2.5, 7)
    assert parse("http://[::1]:8080") == Address("http://[::1]:8080")


@each("url", [f"http://{TOKEN}@host", f"http://me:{TOKEN}@host", f"http://{TOKEN[:-1]}%30@host"])
def test_a_token_in_the_url(url: str) -> None:
    address = parse(url)
    assert address.token in {TOKEN, f"{TOKEN[:-1]}0"}
    assert address.base == "http://host"
    assert "tbt_" not in f"{address} {address!r}"


def test_a_token_beside_it_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse("http://host").token is None
    monkeypatch.setenv("TURNABOUT_TOKEN", TOKEN)
    assert parse("http://host").token == TOKEN
    assert parse("http://other@host").token == "other"
    assert parse("http://host", "given").token == "given"


@each(
    ("url", "said"),
    [
        (f"http://{TOKEN}", "before an @"),
        (f"http://me:{TOKEN}", "cannot be read"),
        (f"http://{TOKEN}@", "names no server"),
        (f"http://[{TOKEN}@host", "cannot be read"),
        (f"http://{TOKEN}%0a@host", "not a token"),
        (f"http://{TOKEN}%20@host", "not a token"),
        (f"http://{TOKEN}@host#there", "#"),
        (f"http://{TOKEN}@host:99999", "cannot be read"),
        (f"http://{TOKEN}@ho st", "names no server"),
        (f"http://{TOKEN}@host?timeout=5", "no option 'timeout'"),
        (f"http://{TOKEN}@host?timeout_seconds=soon", "0.01 to 3,600"),
        (f"http://{TOKEN}@host?timeout_seconds=nan", "0.01 to 3,600"),
        (f"http://{TOKEN}@host?max_connections=1.5", "whole number"),
        (f"http://{TOKEN}@host?max_connections=0", "1 to 10,000"),
    ],
)
@each("connect", [turnabout.connect, turnabout.aio.connect])
def test_a_wrong_url_is_refused_without_showing_the_token(connect, url: str, said: str) -> None:
    with pytest.raises(turnabout.UsageError, match=said) as caught:
        connect(url)
    assert TOKEN not in "".join(traceback.format_exception(caught.value, limit=0))


def test_a_token_is_for_servers_and_a_clock_is_not() -> None:
    for url in ("sqlite://", "postgresql://localhost/app"):
        with pytest.raises(turnabout.UsageError, match="a token is for a server"):
            turnabout.connect(url, token=TOKEN)
    with pytest.raises(turnabout.UsageError, match="give only one"):
        turnabout.connect(f"http://{TOKEN}@host", token=TOKEN)
    with pytest.raises(turnabout.UsageError, match="its own clock"):
        turnabout.connect("http://host", clock=lambda: 0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnabout._connect.find_spec", lambda _: None)
    with pytest.raises(turnabout.UsageError, match=r"pip install '\.\[client\]'"):
        turnabout.connect("http://host")


def test_a_schema_is_not_asked_of_a_server() -> None:
    from turnabout._connect import installer

    with pytest.raises(turnabout.UsageError, match="name the database behind it"):
        installer("http://host")
