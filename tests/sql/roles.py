"""A migrated database, and roles of PostgreSQL with permissions in it."""

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from psycopg import sql

from tests.postgres.asking import ask
from tests.support.postgres import migrated_url
from turnabout.postgres import install

_number = itertools.count(1)


owner = migrated_url


@pytest.fixture
def role(owner: str) -> Iterator[Callable[..., str]]:
    """Makes a role with these permissions: answers with its URL. All are dropped at the end."""
    made: list[str] = []

    def make(*kinds: str, **more: Any) -> str:
        name = f"turnabout_{os.getpid()}_{next(_number)}"
        ask(owner, sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
        made.append(name)
        for kind in kinds:
            install.allow(owner, name, kind, **more)
        return as_role(owner, name)

    yield make
    for name in made:
        for what in ("drop owned by {}", "drop role {}"):
            ask(owner, sql.SQL(what).format(sql.Identifier(name)))


def as_role(url: str, name: str) -> str:
    """The same database for another role."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{name}:x@{place}").geturl()


def name_of(url: str) -> str:
    return urlsplit(url).username or ""


def set_for(owner: str, url: str, settings: dict[str, str]) -> None:
    """What an administrator sets for the role of this URL: its sessions begin so."""
    for name, value in settings.items():
        ask(owner, sql.SQL("alter role {} set {} = {}").format(
            *map(sql.Identifier, (name_of(url), name)), sql.Literal(value)))  # fmt: skip
