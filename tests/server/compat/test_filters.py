"""The part of MongoDB's queries that peek knows."""

import json

import pytest

from tests.support.each import each
from turnabout import UsageError
from turnabout.server.compat.filters import parse

DOCUMENT = {
    "attempts": 2,
    "payload": {
        "name": "ada", "level": 3, "is_new": True, "none": None, "tags": ["a", "b"],
        "games": [{"id": 7, "score": 1.5}, {"id": 8}], "deep": {"er": {"x": 1}},
    },
}  # fmt: skip


@each(
    ("query", "matches"),
    [
        ({}, True),
        ({"payload.name": "ada"}, True),
        ({"payload.name": "bob"}, False),
        ({"payload.level": 3.0}, True),
        ({"payload.level": {"$gt": 2, "$lt": 4}}, True),
        ({"payload.level": {"$gte": 4}}, False),
        ({"payload.level": {"$lte": "9"}}, False),
        ({"payload.name": {"$gt": "aaa"}}, True),
        ({"payload.name": {"$gt": 1}}, False),
        ({"payload.is_new": True}, True),
        ({"payload.is_new": 1}, False),
        ({"payload.is_new": {"$gt": 0}}, False),
        ({"payload.none": None}, True),
        ({"payload.missing": None}, True),
        ({"payload.name": None}, False),
        ({"payload.missing": {"$exists": False}}, True),
        ({"payload.none": {"$exists": True}}, True),
        ({"payload.missing": {"$ne": 1}}, True),
        ({"payload.tags": "b"}, True),
        ({"payload.tags": ["a", "b"]}, True),
        ({"payload.tags": {"$nin": ["b"]}}, False),
        ({"payload.tags.1": "b"}, True),
        ({"payload.tags.2": {"$exists": True}}, False),
        ({"payload.games.id": {"$in": [8, 9]}}, True),
        ({"payload.games.score": {"$lt": 2}}, True),
        ({"payload.deep": {"er": {"x": 1}}}, True),
        ({"payload.deep.er.x": 1, "attempts": 2}, True),
        ({"$or": [{"attempts": 1}, {"payload.name": "ada"}]}, True),
        ({"$and": [{"attempts": 1}, {"payload.name": "ada"}]}, False),
        ({"$nor": [{"attempts": 1}]}, True),
    ],
)
def test_matches(query: object, matches: bool) -> None:
    assert parse(json.dumps(query))(DOCUMENT) is matches


@each(
    "text",
    [
        "", "nonsense", "[]", "1", "NaN", '"\\ud800"', "[" * 5000,
        '{"$where": "1"}', '{"payload": {"$regex": "a"}}', '{"payload": {"$eq": 1, "a": 1}}',
        '{"$and": []}', '{"$or": {"a": 1}}', '{"$or": [1]}', '{"payload.a": {"$in": 1}}',
        '{"payload.a": {"$gt": true}}', '{"payload.a": {"$exists": 1}}', '{"queue": 1}',
        '{"payload..a": 1}', '{"attempts.a": 1}', '{"": 1}',
        json.dumps({"payload.a": {"$in": list(range(101))}}),
        '{"$and": [' * 10 + "{}" + "]}" * 10,
        '{"payload.a": "' + "x" * 5000 + '"}',
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
