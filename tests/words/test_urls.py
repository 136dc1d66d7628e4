"""URLs are shown without their secrets, also those that no parser takes as they were meant."""

import pytest

from tests.support.each import each
from turnabout.words.errors import UsageError
from turnabout.words.urls import check_user, secrets_of, without_secrets

SHOWN = [
    ("postgresql://bob@h/db", "postgresql://bob@h/db", "postgresql://bob@h/db"),
    ("postgresql://bob:s3cr3t@h:1/db", "postgresql://bob@h:1/db", "postgresql://bob:***@h:1/db"),
    ("postgresql://:s3cr3t@/db", "postgresql:///db", "postgresql://:***@/db"),
    ("postgresql://h/db?password=s3cr3t", "postgresql://h/db", "postgresql://h/db?password=***"),
    (
        "postgresql://h/db?sslpassword=s3cr3t&a=1&oauth_client_secret=s3cr3t&b=2",
        "postgresql://h/db?a=1&b=2",
        "postgresql://h/db?sslpassword=***&a=1&oauth_client_secret=***&b=2",
    ),
    (
        "postgresql://h/db?p%61ssword=s3cr3t&PASSWORD=s3cr3t",
        "postgresql://h/db",
        "postgresql://h/db?p%61ssword=***&PASSWORD=***",
    ),
    ("postgresql://h:5432/db?user=a@b", *["postgresql://h:5432/db?user=a@b"] * 2),
    ("postgresql://u:s3cr3t@h/db?user=a@b", "postgresql://u@h/db?user=a@b", None),
    ("http://tbt_s3cr3t@h:80/x", "http://h:80/x", "http://***@h:80/x"),
    ("https://u:tbt_s3cr3t@h", "https://h", "https://***@h"),
    ("sqlite:///app.db", "sqlite:///app.db", "sqlite:///app.db"),
    ("sqlite://", "sqlite://", "sqlite://"),
    ("app.db", "app.db", "app.db"),
]
MISREAD = [
    f"postgresql://bob:{password}@h:1/db"
    for password in (
        "s3cr3t/x",
        "12/s3cr3t",
        "s3cr3t?x",
        "12?s3cr3t",
        "s3cr3t#x",
        "s3@cr3t",
        "@s3cr3t",
    )
]


@each(("url", "bare", "hidden"), SHOWN)
def test_a_url_is_shown_without_its_secrets(url, bare, hidden):
    assert without_secrets(url) == bare
    assert hidden in (None, without_secrets(url, "***"))
    check_user(url)


@each("url", MISREAD)
def test_a_password_that_a_parser_would_cut_is_not_shown_and_refused(url):
    assert without_secrets(url) == "postgresql://bob@h:1/db"
    assert without_secrets(url, "***") == "postgresql://bob:***@h:1/db"
    with pytest.raises(UsageError, match=r"write %[0-9A-F]{2} instead") as refused:
        check_user(url)
    assert "s3" not in str(refused.value)


def test_secrets_are_known_as_they_stand_there_and_decoded():
    assert secrets_of("postgresql://u:p%40ss@h/db?sslpassword=a%20b") == {
        "p%40ss", "p@ss", "a%20b", "a b",
    }  # fmt: skip
    assert secrets_of("http://tbt_x@h") == {"tbt_x"}
    assert secrets_of("sqlite:///a:b@c.db") == set()
