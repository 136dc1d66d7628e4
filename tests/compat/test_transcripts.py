"""Each transcript, replayed against a real server on each database, to the letter."""

from pathlib import Path

import pytest

from tests.compat.conftest import Place
from tests.compat.transcript import FOLDER, Player


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_answers_are_those_of_the_transcript(path: Path, place: Place) -> None:
    golden = path.read_text()
    assert Player(place.url, place.clock).play(golden) == golden


def test_a_wrong_answer_is_seen(place: Place) -> None:
    golden = (FOLDER / "hq-queues.txt").read_text()
    place.ask("POST /queues?name=another&max_attempts=1&visibility_timeout_seconds=1")
    assert Player(place.url, place.clock).play(golden) != golden


def test_every_route_is_in_a_transcript() -> None:
    from turnabout.compat import hq, toxmq
    from turnabout.server import create_app
    from turnabout.sqlite.async_store import AsyncSqliteStore

    context = create_app(AsyncSqliteStore("sqlite://")).state.context
    asked = [
        line.removeprefix("> ").partition("?")[0].split(" ", 1)
        for path in FOLDER.glob("*.txt")
        for line in path.read_text().splitlines()
        if line.startswith("> ") and " /" in line
    ]
    for route in (*hq.routes(context), *toxmq.routes(context)):
        if route.path.endswith("/"):
            continue
        for method in route.methods:
            assert any(method == said[0] and route.path_regex.match(said[1]) for said in asked), (
                f"{method} {route.path}"
            )
