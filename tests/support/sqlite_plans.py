"""Plans of SQLite's statements: what is searched, by which index, and what is read through."""

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pytest

from tests.support.each import each
from turnabout.sqlite.store import SqliteStore


def plan_of(connection: sqlite3.Connection, statement: str) -> list[str]:
    """The lines of a statement's plan, whatever its values."""
    names = re.findall(r":(\w+)", statement)
    values = dict.fromkeys(names) if names else [None] * statement.count("?")
    plan = connection.execute(f"explain query plan {statement}", values).fetchall()
    named = connection.execute("select name from sqlite_schema where name not like 'sqlite%'")
    tables = {name for (name,) in named.fetchall()}
    return [_marked(row[-1], tables) for row in plan]


def _marked(line: str, tables: set[str]) -> str:
    """A line that reads a table of the file says so, unlike one that reads a subquery's rows."""
    scanned = re.match(r"SCAN (\w+)", line)
    return f"TABLE {line}" if scanned is not None and scanned[1] in tables else line


def check_plan(plan: list[str], *, may_walk: bool = False, may_sort: bool = False) -> None:
    """It reads no table through, and sorts nothing, nor does it make an index for that."""
    shown = "\n".join(plan)
    assert may_walk or "TABLE SCAN" not in shown, shown
    assert may_sort or "TEMP B-TREE" not in shown, shown
    assert may_sort or "AUTOMATIC" not in shown, shown


def check_searches(plan: list[str], wanted: list[str]) -> None:
    """It searches these, in this order."""
    found = [line for line in plan if line.startswith("SEARCH") and "(subquery" not in line]
    assert len(found) == len(wanted), "\n".join(found)
    for line, part in zip(found, wanted, strict=True):
        assert part in line, "\n".join(found)


def searches_of(table: str) -> dict[str, list[str]]:
    """What hot statements go through, in this order, from lines `file step, file step: search,
    search`, each of which may go on in lines that are indented.
    """
    lines = re.sub(r"\n +", " ", table).strip().splitlines()
    return {
        name: searches.split(", ")
        for names, _, searches in (line.partition(": ") for line in lines)
        for name in names.split(", ")
    }


def connections(
    load: Callable[[SqliteStore], None], make_ready: Callable[[SqliteStore], object] | None = None
) -> Callable[..., Iterator[sqlite3.Connection]]:
    """A module's fixture: a new file, and a loaded one after ANALYZE, as users run it at times."""

    @pytest.fixture(scope="module", params=["new", "analyzed"])
    def connection(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
        store = SqliteStore("sqlite://")
        connection = store._opened.writer.connection
        if make_ready is not None:
            make_ready(store)
        if request.param == "analyzed":
            load(store)
            connection.execute("analyze")
        yield connection
        store.close()

    return connection


class Plans:
    """Tests of the statements of some files, by a `connection`. Steps: `file step`."""

    files: Sequence[str]
    statements: Callable[[str], Mapping[str, str]]
    hot: Mapping[str, list[str]]
    may_walk: Collection[str]
    may_sort: Collection[str] = ()

    def test_no_statement_reads_a_table_or_sorts(self, connection: sqlite3.Connection) -> None:
        @each(("file", "step"), [(f, step) for f in self.files for step in self.statements(f)])
        def check(file: str, step: str) -> None:
            name = f"{file} {step}"
            plan = plan_of(connection, self.statements(file)[step])
            check_plan(plan, may_walk=name in self.may_walk, may_sort=name in self.may_sort)

        check()

    def test_a_hot_statement_takes_its_index(self, connection: sqlite3.Connection) -> None:
        @each("name", self.hot)
        def check(name: str) -> None:
            file, _, step = name.partition(" ")
            check_searches(plan_of(connection, self.statements(file)[step]), self.hot[name])

        check()
