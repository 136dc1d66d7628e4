"""Every verb and every answer comes back as it was."""

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.each import each
from tests.wire.drawn import drawn, verbs
from turnabout import wire
from turnabout.wire.plans import hint_of_answer
from turnabout.words import verbs as v
from turnabout.words.errors import UsageError

QUICK = (v.Send, v.Receive, v.QueueUpdate)
KINDS = [
    pytest.param(kind, id=kind.name, marks=[] if kind in QUICK else [pytest.mark.slow])
    for kind in v.VOCABULARY
]
MANY = settings(max_examples=10, deadline=None, database=None,
                suppress_health_check=list(HealthCheck), phases=[Phase.generate])  # fmt: skip


def read_back(request: wire.Request, kind: type[v.Verb[Any]]) -> v.Verb[Any]:
    """As a server does it."""
    route = wire.ROUTE_OF[kind]
    path, _, query = request.path.partition("?")
    fields: dict[str, str] = {}
    for template in filter(None, (route.path, route.also)):
        parts, given = template.split("/"), path.split("/")
        if len(parts) == len(given):
            fields = {
                name[1:-1]: unquote(one)
                for name, one in zip(parts, given, strict=True)
                if name.startswith("{")
            }
            break
    assert request.method == route.method
    return wire.load_verb(kind, request.body, **fields, **wire.load_query(query.encode()))


@pytest.mark.parametrize("kind", KINDS)
@MANY
@given(data=st.data())
def test_a_verb_comes_back(kind: Any, data: st.DataObject) -> None:
    verb = data.draw(verbs(kind))
    request = wire.request_of(verb)
    assert request.body == wire.dump_verb(verb)
    assert read_back(request, kind) == verb
    assert wire.load_transaction(wire.dump_transaction([verb, verb])) == ((verb, verb), False)
    if request.body:
        json.loads(request.body)


@pytest.mark.parametrize("kind", KINDS)
@MANY
@given(data=st.data())
def test_an_answer_comes_back(kind: Any, data: st.DataObject) -> None:
    answer = data.draw(drawn(hint_of_answer(kind)))
    body = wire.dump_answer(kind, answer)
    assert wire.load_answer(kind, body) == answer
    assert isinstance(json.loads(body), dict)
    verb = data.draw(verbs(kind))
    assert wire.load_transaction_answer(
        [verb], b"".join(wire.transaction_pieces([verb], [answer]))
    ) == [answer]


@MANY
@given(ms=st.integers(0, 2**45))
def test_a_duration_comes_back_to_the_millisecond(ms: int) -> None:
    from turnabout.wire.seconds import ms_of, seconds_of

    assert ms_of(seconds_of(ms)) == ms


@each(("seconds", "ms"), [(0.0001, 1), (0.0015, 2), (1, 1000), (0.29, 290)])
def test_a_part_of_a_millisecond_is_rounded_up(seconds: float, ms: int) -> None:
    from turnabout.wire.seconds import ms_of

    assert ms_of(seconds) == ms


@pytest.mark.parametrize("seconds", [-1.7976931348623155e308, 1e308])
def test_a_time_beyond_all_numbers_is_refused(seconds):
    from turnabout.wire.seconds import ms_of

    with pytest.raises(UsageError, match="nothing lasts"):
        ms_of(seconds)
