"""A keyed send whose connection is cut, at each point that one call has, happens once."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import turnabout
from tests.support.postgres import migrated_url
from turnabout import Disconnected, Uncertain
from turnabout.postgres._sync.libpq import LibpqConnection

pytestmark = pytest.mark.slow  # a database for each


url = migrated_url


def cutting(moment: str, places: Iterator[int]) -> Any:
    """`Connection._result`, which every round trip ends in, with a cut at the place that is due."""
    whole = LibpqConnection._result

    def result(self: LibpqConnection) -> Any:
        if next(places):
            return whole(self)
        if moment == "answer lost":
            whole(self)  # the server has done it
        self.raw.close()
        raise psycopg.OperationalError("the connection was cut")

    return result


@pytest.mark.parametrize("moment", ["request lost", "answer lost"])
@pytest.mark.parametrize("place", [0, 1], ids=["preparing", "sending"])
def test_a_send_that_was_cut_is_repeated_and_happens_once(url, monkeypatch, moment, place):
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        queue.create()
        with monkeypatch.context() as patch:
            patch.setattr(
                LibpqConnection, "_result", cutting(moment, iter([1] * place + [0] + [1] * 9))
            )
            try:
                queue.send("x", dedup_key="k")
            except (Uncertain, Disconnected):
                pass
            else:
                pytest.fail("the cut was not seen")
        again = queue.send("x", dedup_key="k")
        (there,) = queue.peek()
        assert again.ids == (there.id,)
        # A request that was on its way may arrive before the repeat or after it.
        if (moment, place) == ("answer lost", 1):
            assert again.duplicates == (0,)
        assert queue.stats().sent == 1
