"""What a database holds of ours, from its catalogs: to compare two that came about differently."""

import sqlite3
from pathlib import Path
from typing import Any

import psycopg

_OURS = "(n.nspname ~ '^turnabout(_r\\d+.*)?$' or c.relname = 'turnabout_inbox')"

POSTGRES = {
    "columns": (
        "select n.nspname, c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),"
        " a.attnotnull, a.attidentity::text, a.attgenerated::text, l.collname,"
        " pg_get_expr(d.adbin, d.adrelid)"
        " from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " join pg_namespace n on n.oid = c.relnamespace"
        " left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum"
        " left join pg_collation l on l.oid = a.attcollation"
        f" where {_OURS} and a.attnum > 0 and c.relkind in ('r', 'p', 'v', 'c')"
        " order by 1, 2, 4"
    ),
    "relations": (
        "select n.nspname, c.relname, c.relkind::text, c.reloptions, t.reloptions,"
        " array(select x::text from unnest(c.relacl) x order by 1),"
        " pg_get_expr(c.relpartbound, c.oid)"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " left join pg_class t on t.oid = c.reltoastrelid"
        f" where {_OURS} order by 1, 2"
    ),
    "indexes": (
        "select schemaname, indexname, indexdef from pg_indexes"
        " where schemaname = 'turnabout' order by 1, 2"
    ),
    "constraints": (
        "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint"
        " where connamespace = 'turnabout'::regnamespace order by 1, 2"
    ),
    "functions": (
        "select n.nspname, p.oid::regprocedure::text, pg_get_functiondef(p.oid),"
        " array(select x::text from unnest(p.proacl) x order by 1)"
        " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname ~ '^turnabout(_r\\d+.*)?$' order by 1, 2"
    ),
    "triggers": (
        "select tgrelid::regclass::text, pg_get_triggerdef(oid) from pg_trigger"
        " where not tgisinternal order by 1, 2"
    ),
    "views": (
        "select schemaname, viewname, definition from pg_views"
        " where viewname = 'turnabout_inbox' or schemaname = 'turnabout' order by 1, 2"
    ),
    "schemas": (
        "select nspname, array(select x::text from unnest(nspacl) x order by 1)"
        " from pg_namespace where nspname ~ '^turnabout' order by 1"
    ),
    "ledger": "select slice, number, name, oldest from turnabout.version order by 1, 2",
    "revisions": "select place, digest, kinds, views from turnabout.revision order by 1",
}


def of_postgres(url: str) -> dict[str, list[Any]]:
    """Every part of a database's schema by its name; none may be empty."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = {what: connection.execute(sql).fetchall() for what, sql in POSTGRES.items()}
    assert [what for what, rows in found.items() if not rows] == []
    return found


def of_sqlite(path: Path) -> list[Any]:
    """Tables, indexes, views and triggers, each as SQLite was told; and the ledger.

    Spaces do not count: SQLite keeps the text of a table that was altered as it was typed.
    """
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(
            "select type, name, tbl_name, sql from sqlite_schema order by 1, 2"
        ).fetchall()
        rows += connection.execute("select * from turnabout_migration order by 1, 2").fetchall()
    finally:
        connection.close()
    return rows
