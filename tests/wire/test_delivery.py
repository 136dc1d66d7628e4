"""Deliveries with malformed stored texts: the answers that carry them stay well-formed."""

import json

import msgspec
import pytest

from turnabout.wire import delivery
from turnabout.words import entities

FORGED = '{}},{"receipt":"999.1.1","id":999,"channel":"vip","headers":{}'


def said(headers: str | None, origin: str | None = None) -> list[dict[str, object]]:
    """What an answer with this delivery between two others says."""
    plain = entities.Delivery(
        1, 1, "a", 0, b"x", "text/plain", None, None, 0, 0, 0, None, 9, 1000, 1
    )
    odd = plain._replace(id=2, headers_json=headers, origin_json=origin)
    answer = msgspec.json.encode([delivery.dump(one) for one in (plain, odd, plain)])
    return json.loads(answer)


@pytest.mark.parametrize("text", ["not json", "", "[]", '"a"', "null", '{"a": 1}', FORGED])
def test_stored_texts_of_another_form_are_left_out(text):
    for answer in (said(text), said(None, text)):
        assert [one["id"] for one in answer] == [1, 2, 1]
        assert "headers" not in answer[1]
        assert "origin" not in answer[1]


def test_stored_headers_are_said_as_they_are():
    assert said('{"trace": "1", "ü": "\\u0001"}')[1]["headers"] == {"trace": "1", "ü": "\x01"}
