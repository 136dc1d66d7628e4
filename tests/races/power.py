"""Power cuts of an SQLite file: what was written and synced is noted, and any moment of it can be
made a disk again, without what no sync had covered, or with some of it, or with torn pieces.

    python3 dev.py chaos --power 1000

Each such image must open, be whole, and hold all that was told as done before the cut.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import turnabout
from tests.races.world import preloaded

HEADER = struct.Struct("<c3xiqq24s")
PROCESSES, THREADS, CALLS = 2, 3, 100
MODES = ("nothing", "everything", "some", "torn")
"""What of the unsynced is on the disk."""
SECTOR = 512


# --- the program that is watched -----------------------------------------------------------------


def work(url: str, log: str, seed: str) -> None:
    """Send and ack from some threads, and write down each answer once it has come."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND)

    def told(**what: Any) -> None:
        data = json.dumps(what).encode()
        os.write(file, HEADER.pack(b"A", 0, 0, len(data), b"") + data)

    def run(number: int) -> None:
        dice = random.Random(f"{seed} {number}")
        for call in range(CALLS):
            size = dice.choice([1, 1, 1, dice.randint(2, 30)])
            texts = [f"{seed}.{number}.{call}.{n}{'x' * dice.randint(0, 900)}" for n in range(size)]
            told(sent=queue.send_many([turnabout.message(text) for text in texts]).ids)
            if dice.random() < 0.6:
                batch = queue.receive(dice.randint(1, 8), lease_seconds=3_000)
                told(acked=[m.id for m in batch if isinstance(m.ack(), turnabout.Acked)])

    with turnabout.connect(url) as mq:
        queue = mq.queue("power")
        threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


# --- what it did, and the disks that it may have left --------------------------------------------


@dataclass
class Step:
    """A record of the log."""

    kind: str
    thread: int
    at: int
    name: str
    data: bytes


@dataclass
class Disk:
    """Files as they are for certain, and what may be on them, in order."""

    sure: dict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    loose: list[Step] = field(default_factory=list)
    begun: dict[tuple[int, str], int] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Something was done to a file. A sync covers what was written to it before it began, and
        with that the journal of the file system: which files there are.
        """
        place = step.thread, step.name
        if step.kind == "B":
            self.begun[place] = len(self.loose)
        elif step.kind == "S":
            covered = self.begun.pop(place, 0)
            mine = [
                n < covered and (s.name == step.name or s.kind == "U")
                for n, s in enumerate(self.loose)
            ]
            for one, is_mine in zip(self.loose, mine, strict=True):
                if is_mine:
                    apply(self.sure, one)
            # Others' marks count what is loose, too.
            for other, mark in self.begun.items():
                self.begun[other] = mark - sum(mine[:mark])
            self.loose = [s for s, is_mine in zip(self.loose, mine, strict=True) if not is_mine]
        else:
            self.loose.append(step)

    def image(self, mode: str, dice: random.Random) -> dict[str, bytearray]:
        """The files after a cut."""
        files = defaultdict(bytearray, {name: data[:] for name, data in self.sure.items()})
        for step in self.loose:
            if mode == "everything" or (mode in ("some", "torn") and dice.random() < 0.6):
                apply(files, step, dice if mode == "torn" else None)
        return files


def apply(files: dict[str, bytearray], step: Step, torn: random.Random | None = None) -> None:
    """Do it to the files; or, of what is written, only some sectors."""
    if step.kind == "U":
        files.pop(step.name, None)
        return
    file = files[step.name]
    if step.kind == "T":
        file[:] = file[: step.at].ljust(step.at, b"\0")
        return
    for start in range(0, len(step.data), SECTOR if torn else len(step.data)):
        part = step.data[start : start + SECTOR] if torn else step.data
        if torn is None or torn.random() < 0.7:
            at = step.at + start
            file.extend(b"\0" * (at + len(part) - len(file)))
            file[at : at + len(part)] = part


def read(log: Path) -> list[Step]:
    """The whole log."""
    steps, data, at = [], log.read_bytes(), 0
    while at < len(data):
        kind, thread, place, size, name = HEADER.unpack_from(data, at)
        at += HEADER.size
        length = size if kind in b"WA" else 0
        text = name.rstrip(b"\0").decode()
        steps.append(Step(kind.decode(), thread, place, text, data[at : at + length]))
        at += length
    return steps


# --- the run -------------------------------------------------------------------------------------


def judged(folder: Path, sends: list[list[int]], acked: set[int]) -> Iterator[str]:
    """What is wrong with an image."""
    try:
        with closing(sqlite3.connect(folder / "power.db")) as file:
            (whole,) = file.execute("pragma integrity_check").fetchone()
            there = {row[0] for row in file.execute("select id from turnabout_message")}
            done = {row[0] for row in file.execute("select id from turnabout_history")}
            (count,) = file.execute(
                "select given.sent from turnabout_given as given join turnabout_queue as queue"
                " on queue.id = queue_id where name = 'power'"
            ).fetchone()
    except (sqlite3.Error, TypeError) as error:
        yield f"it does not open: {error!r}"
        return
    if whole != "ok":
        yield f"it is not whole: {whole}"
    if count != len(there | done):
        yield f"{count} sent, {len(there | done)} there"
    if lost := [number for ids in sends for number in ids if number not in there | done]:
        yield f"accepted and lost: {lost[:5]}"
    if undone := acked - done:
        yield f"acked and undone: {sorted(undone)[:5]}"


def cuts(images: int, seed: int, synchronous: str = "full") -> tuple[Counter[str], list[str]]:
    """That many cuts of one run; counts, and what was wrong."""
    dice, numbers, wrong = random.Random(seed), Counter[str](), list[str]()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # syncs are noted, not waited for
    with tempfile.TemporaryDirectory(prefix="turnabout-power-", dir=memory) as name:
        folder = Path(name)
        steps = _watched(folder, seed, synchronous)
        numbers.update(f"records {step.kind}" for step in steps)
        first = next(n for n, step in enumerate(steps) if step.kind == "A")
        moments = Counter(dice.choices(range(first, len(steps)), k=images))
        disk, sends, acked, image = Disk(), list[list[int]](), set[int](), folder / "image"
        for moment, step in enumerate(steps):
            if step.kind == "A":
                told = json.loads(step.data)
                sends += [told["sent"]] if "sent" in told else []
                acked.update(told.get("acked", ()))
            else:
                disk.take(step)
            for number in range(moments[moment]):
                mode = MODES[(numbers["images"] + number) % len(MODES)]
                shutil.rmtree(image, ignore_errors=True)
                image.mkdir()
                for file, data in disk.image(mode, dice).items():
                    (image / file).write_bytes(data)
                wrong += [f"cut {moment}, {mode}: {what}" for what in judged(image, sends, acked)]
            numbers["images"] += moments[moment]
        numbers["sends"], numbers["acks"] = sum(map(len, sends)), len(acked)
    return numbers, wrong


def _watched(folder: Path, seed: int, synchronous: str) -> list[Step]:
    """Let the program run, watched."""
    shim = preloaded(Path(__file__).with_suffix(".c"), folder)
    log, data = folder / "log", folder / "data"
    data.mkdir()
    log.touch()
    url = f"sqlite:///{data}/power.db?synchronous={synchronous}"
    watched = {**os.environ, "POWER_LOG": str(log), "LD_PRELOAD": str(shim)}
    make = f"import turnabout; turnabout.connect({url!r}).queue('power').create()"
    subprocess.run([sys.executable, "-c", make], env=watched, check=True)
    words = [sys.executable, "-m", "tests.races.power", url, str(log)]
    running = [
        subprocess.Popen([*words, f"{seed}.{number}"], env=watched) for number in range(PROCESSES)
    ]
    assert [process.wait(120) for process in running] == [0] * PROCESSES
    return read(log)


if __name__ == "__main__":
    work(*sys.argv[1:])
