"""Named statements in files of SQL, and those that are one text under several names."""

import re
from pathlib import Path

from tests.support.each import each
from turnabout.statements import statements_in

SOURCE = Path(__file__).parents[1] / "src" / "turnabout"
SHARED = [file for file in SOURCE.rglob("*.sql") if "  -- only: " in file.read_text()]


def test_steps_that_are_alike_are_one_text(tmp_path):
    file = tmp_path / "list.sql"
    file.write_text(
        "-- List: by name.\n\n-- name: all, of one, named\n-- All, or some.\nselect name from t\n"
        "where a = :a  -- only: of one, named\n  and name = :name;  -- only: named\n"
        "order by name;  -- only: all, of one\n\n-- name: drop\n-- All.\ndelete from t;\n"
    )
    assert dict(statements_in(file)) == {
        "all": "select name from t\norder by name",
        "of one": "select name from t\nwhere a = :a\norder by name",
        "named": "select name from t\nwhere a = :a\n  and name = :name",
        "drop": "delete from t",
    }


@each("file", SHARED)
def test_a_line_is_only_for_steps_that_share_its_text(file):
    for names, *lines in (step.splitlines() for step in file.read_text().split("-- name: ")[1:]):
        steps = set(names.split(", "))
        for line in lines:
            only = re.search("-- only: (.*)", line)
            assert only is None or set(only[1].split(", ")) < steps, line
