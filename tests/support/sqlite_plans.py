"""Plans of SQLite's statements: what is searched, by which index, and what is read through."""

import re
import sqlite3


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
    """It reads no table through, and sorts nothing."""
    shown = "\n".join(plan)
    assert may_walk or "TABLE SCAN" not in shown, shown
    assert may_sort or "TEMP B-TREE" not in shown, shown
    assert "AUTOMATIC" not in shown, shown


def check_searches(plan: list[str], wanted: list[str]) -> None:
    """It searches these, in this order."""
    found = [line for line in plan if line.startswith("SEARCH") and "(subquery" not in line]
    assert len(found) == len(wanted), "\n".join(found)
    for line, part in zip(found, wanted, strict=True):
        assert part in line, "\n".join(found)
