"""Which URL a database of Django's settings has."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

from turnabout.django.places import url_of
from turnabout.postgres.url import parse


def connection(vendor: str, *, memory: bool = False, **settings: Any) -> Any:
    usual = {"NAME": "", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}
    return SimpleNamespace(
        vendor=vendor,
        alias="default",
        settings_dict=usual | settings,
        is_in_memory_db=lambda: memory,
    )


def test_postgresql_gets_all_that_libpq_takes() -> None:
    options = {"sslmode": "prefer", "pool": True, "isolation_level": 1, "assume_role": "app"}
    url = url_of(
        connection(
            "postgresql", NAME="my db", USER="a:b", PASSWORD="p@ss/w?rd%",
            HOST="/var/run/pg sql", PORT=5433, OPTIONS=options,
        )
    )  # fmt: skip
    assert conninfo_to_dict(parse(url).conninfo) == {
        "dbname": "my db",
        "user": "a:b",
        "password": "p@ss/w?rd%",
        "host": "/var/run/pg sql",
        "port": "5433",
        "sslmode": "prefer",
        "options": "-c role=app",
    }


def test_postgresql_by_a_service_or_by_default() -> None:
    assert url_of(connection("postgresql")) == "postgresql:///"
    url = url_of(connection("postgresql", USER="ada", OPTIONS={"service": "mine"}))
    assert url == "postgresql://ada@/?service=mine"


def test_a_file() -> None:
    assert url_of(connection("sqlite", NAME="a b#.db")) == "sqlite:///a%20b%23.db"
    assert url_of(connection("sqlite", NAME="/var/app.db")) == "sqlite:////var/app.db"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (connection("mysql"), "the database 'default' is mysql"),
        (connection("sqlite", NAME=":memory:", memory=True), "in memory"),
        (connection("sqlite", NAME="file:x?mode=ro"), "by a URI"),
    ],
)
def test_others_are_refused(given: Any, told: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=told):
        url_of(given)
