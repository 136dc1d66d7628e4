"""The part of MongoDB's queries that peek knows: equality."""

import json

import pytest

from tests.support.each import each
from turnabout import UsageError
from turnabout.compat.filters import parse

DOCUMENT = {
    "attempts": 2,
    "payload": {
        "name": "ada", "level": 3, "is_new": True, "none": None, "tags": ["a", "b"],
        "deep": {"er": {"x": 1}},
    },
}  # fmt: skip


@each(
    ("query", "matches"),
    [
        ({}, True),
        ({"payload.name": "ada"}, True),
        ({"payload.name": "bob"}, False),
        ({"payload.level": 3.0}, True),
        ({"payload.is_new": True}, True),
        ({"payload.is_new": 1}, False),
        ({"payload.none": None}, True),
        ({"payload.missing": None}, True),
        ({"payload.name": None}, False),
        ({"payload.tags": "b"}, True),
        ({"payload.tags": "c"}, False),
        ({"payload.tags": ["a", "b"]}, True),
        ({"payload.deep": {"er": {"x": 1}}}, True),
        ({"payload.deep.er.x": 1, "attempts": 2}, True),
        ({"payload.deep.er.x": 1, "attempts": 1}, False),
    ],
)
def test_matches(query: object, matches: bool) -> None:
    assert parse(json.dumps(query))(DOCUMENT) is matches


@each(
    "text",
    [
        "", "nonsense", "[]", "1", "NaN", '"\\ud800"', "[" * 5000,
        '{"$where": "1"}', '{"payload": {"$regex": "a"}}', '{"payload": {"a": 1, "$eq": 1}}',
        '{"payload.a": {"$gte": 1}}', '{"$or": [{"attempts": 1}]}', '{"queue": 1}',
        '{"payload..a": 1}', '{"payload.": 1}', '{"attempts.a": 1}', '{"": 1}',
        '{"payload.a": "' + "x" * 5000 + '"}',
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
