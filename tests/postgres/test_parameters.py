"""Parameters of statements, as the server reads them."""

import json
import random

import psycopg

from tests.support.seeds import fresh
from turnabout.postgres.parameters import encoded

WORDS = ["", "a", "NULL", '"', "\\", '\\"', "{a,b}", "ü", " ", ",", '","', "🦆"]
READ = b"""
select array_to_json($1::text[]), (
    select json_agg(encode(item, 'hex') order by nr)
    from unnest($2::bytea[]) with ordinality u (item, nr)
)
"""


def test_arrays_of_anything(postgres_url):
    with fresh() as seed, psycopg.connect(postgres_url) as connection:
        drawn = random.Random(seed)
        for _ in range(200):
            texts = ["".join(drawn.choices(WORDS, k=drawn.randrange(4))) for _ in range(9)]
            some = [drawn.choice([None, *texts]) for _ in range(drawn.randrange(9))]
            for items in (texts, some, texts[:1], []):
                blobs = [None if item is None else b"\x00\xff" + item.encode() for item in items]
                values, formats = encoded([items, blobs])
                answer = connection.pgconn.exec_params(READ, values, param_formats=formats)
                assert json.loads(answer.get_value(0, 0)) == items
                back = json.loads(answer.get_value(0, 1) or b"[]")
                assert back == [blob and blob.hex() for blob in blobs]


def test_arrays_of_numbers_and_of_booleans(postgres_url):
    items = [0, -1, None, 2**40], [True, None, False]
    with psycopg.connect(postgres_url) as connection:
        values, formats = encoded(items)
        read = b"select array_to_json($1::bigint[]), array_to_json($2::boolean[])"
        answer = connection.pgconn.exec_params(read, values, param_formats=formats)
        assert tuple(json.loads(answer.get_value(0, n)) for n in (0, 1)) == items


def test_a_text_with_nul_stays_one(postgres_url):
    """No text of PostgreSQL's has one, and the call says so: it must not become two."""
    values, formats = encoded([["a\x00b", "c"], []])
    with psycopg.connect(postgres_url) as connection:
        answer = connection.pgconn.exec_params(READ, values, param_formats=formats)
        assert answer.error_message
        assert not answer.ntuples
