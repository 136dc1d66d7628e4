"""Processes that bring a database up when they are told to; see `test_kills`."""

from multiprocessing.connection import Connection
from typing import Any

# Here already, so that a process which is forked with this module has nothing left to load.
import turnabout.postgres.install
import turnabout.sqlite.install  # noqa: F401
from turnabout._connect import installer


def main(url: str, pipe: Connection) -> None:
    """Say that all is ready, wait for a word, and say what was applied."""
    install = installer(url)
    install.migrations()
    pipe.send("ready")
    pipe.recv()
    pipe.send(install.up(url))


def start(nursery: Any, url: str) -> tuple[Any, Connection]:
    """A process that has loaded everything and waits for a word to begin."""
    ours, theirs = nursery.Pipe()
    process = nursery.Process(target=main, args=(url, theirs))
    process.start()
    theirs.close()
    assert ours.recv() == "ready"
    return process, ours


def ended(process: Any, pipe: Connection) -> tuple[str, ...]:
    """What it has applied; it must have ended well."""
    assert pipe.poll(100)
    applied = pipe.recv()  # the end of the file, when it has failed: stderr says how
    process.join(100)
    assert process.exitcode == 0
    process.close()
    pipe.close()
    return applied
