"""`migrate` and `sql`: what they say of versions, function sets and permissions."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from tests.postgres.asking import ask
from tests.support.command_line import Runner
from tests.support.postgres import migrated_url
from turnabout.postgres.revision import REVISION
from turnabout.sqlite import install

url = migrated_url


def test_a_newer_file_is_told_from_one_that_is_too_new(run: Runner, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    run("migrate", "up", "--url", url)
    newer = 2
    for oldest, code, text in ((1, 0, "newer version; this one"), (newer, 1, "cannot follow")):
        with sqlite3.connect(tmp_path / "app.db") as db:
            db.execute(
                "insert or replace into turnabout_migration values ('', ?, 'newer', ?)",
                (newer, oldest),
            )
        db.close()
        said = run("migrate", "status", "--url", url, code=code)
        assert f"At step {newer}" in said.out
        assert text in said.out
        document = run("migrate", "status", "--url", url, "--json", code=code).document()
        assert (document["pending"], document.get("too_new", False)) == ([], bool(code))
    assert run("migrate", "up", "--url", url, "--json", code=2).error()["code"] == "wrong_version"


def test_only_who_has_applied_a_step_says_so(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many may begin at once; the others come while this one is about to begin."""
    url = f"sqlite:///{tmp_path}/app.db"
    opened = install.open_writer

    def after_another(place: Any) -> Any:
        opened(place).close()
        return opened(place)

    monkeypatch.setattr(install, "open_writer", after_another)
    assert run("migrate", "up", "--url", url, "--json").document() == {"applied": []}


def test_a_file_has_no_sets_and_no_roles(run: Runner, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    run("migrate", "up", "--url", url)
    assert run("migrate", "prune", "--url", url, "--json").document() == {"dropped": []}
    assert "Nothing to drop" in run("migrate", "prune", "--url", url).out
    for words in (("allow", "produce", "web"), ("disallow", "operate", "web")):
        assert "SQLite has no roles" in run("migrate", *words, "--url", url, code=2).err


def test_sql_since_a_step(run: Runner) -> None:
    for dialect in ("sqlite", "postgresql"):
        document = run("sql", "--dialect", dialect, "--since", "1", "--json").document()
        assert not [s for s in document["statements"] if "create table turnabout.message" in s]
        assert not [s for s in document["statements"] if "create table turnabout_message" in s]
    run("sql", "--dialect", "sqlite", "--since", "-1", code=2)


@pytest.mark.slow
def test_sets_of_functions(run: Runner, url: str) -> None:
    said = run("migrate", "status", "--url", url)
    assert said.out.splitlines()[-1] == f"Functions: revision {REVISION}."
    ask(url, f"create schema turnabout_r{REVISION - 1}")
    number = REVISION - 1
    ask(
        url,
        "insert into turnabout.revision (place, slice, number, core, digest, kinds, views)"
        f" values ('turnabout_r{number}', '', {number}, {number}, 'old', '{{}}', '{{}}')",
    )
    document = run("migrate", "status", "--url", url, "--json").document()
    assert document["revisions"] == [REVISION - 1, REVISION]
    assert run("migrate", "prune", "--url", url).out == f"dropped turnabout_r{REVISION - 1}\n"
    assert run("migrate", "prune", "--url", url, "--json").document() == {"dropped": []}


@pytest.mark.slow
def test_permissions(run: Runner, url: str) -> None:
    role = f"turnabout_cli_{os.getpid()}"
    name = sql.Identifier(role)
    ask(url, sql.SQL("create role {}").format(name))
    try:
        limits = ("--queues", "a*", "--queues", "b", "--max-payload-bytes", "9")
        said = run("migrate", "allow", "produce", role, *limits, "--url", url)
        assert said.out == f"{role} may produce.\n"
        kept = ask(url, "select * from turnabout.permission")
        assert kept == [(role, "produce", ["a*", "b"], 9)]
        document = run("migrate", "disallow", "produce", role, "--url", url, "--json").document()
        assert document == {"role": role, "kind": "produce"}
        assert ask(url, "select * from turnabout.permission") == []
    finally:
        ask(url, sql.SQL("drop owned by {}").format(name))
        ask(url, sql.SQL("drop role {}").format(name))
    assert "there is no role" in run("migrate", "allow", "consume", role, "--url", url, code=2).err
    run("migrate", "allow", "everything", role, "--url", url, code=2)
