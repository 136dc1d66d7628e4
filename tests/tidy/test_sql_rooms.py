"""PostgreSQL's functions stand in rooms, in an order, as modules do for import-linter."""

import re

from tests.tidy.test_tree import ROOT, sources, text_of
from turnabout.postgres.source import ROOMS

SQL = ROOT / "src" / "turnabout" / "postgres" / "sql"
FILES = {path.stem: path for path in sources("src", ends=(".sql",)) if path.is_relative_to(SQL)}
NO_CODE = re.compile(r"--[^\n]*|'(?:[^']|'')*'")


def calls() -> list[tuple[str, str]]:
    """Who calls whom. A name in a comment or in a message calls nothing."""
    return [
        (caller, called)
        for caller, path in FILES.items()
        for called in re.findall(r"\bturnabout\.(\w+)\(", NO_CODE.sub("", text_of(path)))
    ]


def test_every_file_stands_in_a_room() -> None:
    assert {path.parent for path in FILES.values()} == {SQL / room for room in ROOMS}


def test_every_function_that_is_called_exists() -> None:
    assert {called for _, called in calls()} - {*FILES} == set()


def test_a_function_calls_its_own_room_and_earlier_ones_only() -> None:
    room = {name: path.parent.name for name, path in FILES.items()}
    upward = {
        f"{room[caller]}/{caller} calls {room[called]}/{called}"
        for caller, called in calls()
        if ROOMS.index(room[called]) > ROOMS.index(room[caller])
    }
    assert upward == set()
