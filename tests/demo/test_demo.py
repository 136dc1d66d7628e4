"""The demo itself, small: on SQLite, with a worker killed."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import turnabout
from demo import flights
from demo.ledger import DemoLedger, Reader
from tests.demo.conftest import Run
from turnabout._connect import installer
from turnabout.words.errors import UsageError


@pytest.mark.slow
def test_a_small_demo_with_a_kill(run: Run) -> None:
    out = run("--rows", "2000", "--lease", "1").out
    assert "was killed (SIGKILL) while it held" in out
    assert "nothing lost: all 2,000 flights were handled" in out
    assert "Verdict: every promise was kept." in out


@pytest.mark.slow
def test_the_verdict_as_json_and_what_is_kept(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    words = ("--rows", "500", "--no-kill", "--json", "--workers", "2")
    verdict = run(*words, "--url", url).document()
    assert verdict["good"] is True
    assert verdict["redelivered"] == 0
    assert {service["carrier"] for service in verdict["services"]} >= {"UA", "B6", "EV"}
    with turnabout.connect(url) as mq:
        assert mq.queues() == ()  # nothing is left behind unless asked


@pytest.mark.slow
def test_the_same_on_postgresql(postgres_url: str, run: Run) -> None:
    refused = run("--rows", "10", "--url", postgres_url, code=2)
    assert "turnabout migrate up" in refused.err
    installer(postgres_url).up(postgres_url)
    out = run("--rows", "2000", "--lease", "1", "--url", postgres_url).out
    assert "was killed (SIGKILL) while it held" in out
    assert "Verdict: every promise was kept." in out


@pytest.fixture
def one_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what comes to no good: to read the year takes a second."""
    flight = flights.Flight(1, "UA", "1545", "EWR", "IAH", 11, 227)
    monkeypatch.setattr(flights, "read", lambda _rows: [flight])


@pytest.mark.usefixtures("one_flight")
def test_a_database_that_is_away_is_told_without_its_password(run: Run) -> None:
    url = "postgresql://me:S3cret@127.0.0.1:1/db?password=S3cret"
    ran = run("--rows", "10", "--url", url, code=3)
    assert "S3cret" not in ran.out + ran.err


@pytest.mark.usefixtures("one_flight")
def test_a_url_that_names_no_store_is_told(run: Run) -> None:
    ran = run("--rows", "10", "--url", "redis://nowhere", code=2)
    assert "no store for 'redis'" in ran.err


def test_missing_data_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="`python3 dev"):
        flights.folder()


@pytest.mark.slow
def test_the_flights_are_a_flood_ahead_of_the_small_carriers() -> None:
    data = flights.read(5_000)
    assert len(data) == 5_000
    carriers = list(dict.fromkeys(flight.carrier for flight in data))
    sizes = [sum(flight.carrier == name for flight in data) for name in carriers]
    assert sizes == sorted(sizes, reverse=True)
    assert len({flight.row for flight in data}) == 5_000


@pytest.mark.slow
def test_the_picture_shows_who_waits_without_channels(tmp_path: Path, run: Run) -> None:
    out = run("--rows", "2000", "--workers", "2", "--batch", "50", "--picture", "a.svg").out
    assert "fair: HA" in out
    assert "unfair: " in out
    drawn = ET.parse(tmp_path / "a.svg").getroot()
    lanes = [one for one in drawn.iter() if one.get("class") == "lane"]
    marks = [float(one.get("x", 0)) for one in drawn.iter() if one.get("class") == "last"]
    many = len(lanes) // 2
    assert many == len(marks) // 2 >= 14
    # Without channels, who was sent last is last, or in the last batch but one: there are two.
    assert marks[many - 1] > 0.9 * max(marks[:many])
    assert marks[-1] == min(marks[many:])


@pytest.mark.slow
def test_the_recording_moves_and_ends_with_the_verdict(tmp_path: Path, run: Run) -> None:
    run("--rows", "500", "--workers", "2", "--no-kill", "--record", "r.svg")
    frames = [g for g in ET.parse(tmp_path / "r.svg").getroot() if g.get("class") == "f"]
    assert len(frames) > 2
    assert "every promise was kept" in "".join(frames[-1].itertext())


def test_wrong_words_are_refused(run: Run) -> None:
    for words in (["--rows", "0"], ["--nothing"]):
        with pytest.raises(SystemExit, match="2"):
            run(*words)


def test_distances_are_on_a_sphere() -> None:
    places = flights.airports()
    assert flights.kilometres(places["JFK"], places["LAX"]) == pytest.approx(3_974, rel=0.01)
    assert flights.kilometres(places["JFK"], places["JFK"]) == 0


def test_a_line_that_is_not_finished_is_left_for_later(tmp_path: Path) -> None:
    file = tmp_path / "worker-1.jsonl"
    ledger, reader = DemoLedger(), Reader([file])
    assert reader.read_into(ledger) == 0
    file.write_text('{"event":"ready","at":5}\n{"event":"stal')
    assert reader.read_into(ledger) == 1
    assert ledger.ready == {"worker-1"}
    with file.open("a") as more:
        more.write('led","at":6}\n')
    assert reader.read_into(ledger) == 1
    assert ledger.stalled == {"worker-1"}
