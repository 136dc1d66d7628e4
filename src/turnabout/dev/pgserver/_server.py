"""One PostgreSQL server, from start to stop, and the watcher that stops it when we can't."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final, Literal, Self
from urllib.parse import quote

from turnabout.dev.pgserver._programs import (
    PostgresError,
    environment,
    find_binaries,
    major,
    reachable,
    runner,
    version_line,
)
from turnabout.dev.pgserver._template import new_data_folder

Profile = Literal["fast", "durable"]
StopMode = Literal["fast", "immediate"]

START_TIMEOUT_SECONDS: Final = 60.0
STOP_TIMEOUT_SECONDS: Final = 30.0
# The path of a socket may hold 103 bytes on macOS, 107 on Linux. Our folder and the file take 36.
SOCKET_FOLDER_MAX_BYTES: Final = 60

SETTINGS: Final[Mapping[Profile, Mapping[str, str]]] = {
    # For tests: nothing waits for the disk, so a power cut (not a crash of the server) loses data.
    "fast": {
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "shared_buffers": "32MB",
        "max_connections": "60",
    },
    # For benchmarks, crash tests and data that is kept: as a server comes out of the box.
    "durable": {"shared_buffers": "128MB", "max_connections": "100"},
}

# $1 the server's process, $2 the signal that stops it, $3 a folder to remove afterwards or "".
# A line on standard input says that the server was stopped in good order; the end of the file
# says that the parent is gone. The process id can't have been used again: until the parent died
# it was the parent's child, and the parent had not collected it.
WATCHER: Final = """
if read -r _; then exit 0; fi
kill -s "$2" "$1" 2>/dev/null
n=0; while kill -0 "$1" 2>/dev/null && [ $n -lt 100 ]; do n=$((n + 1)); sleep 0.1; done
[ -z "$3" ] || rm -rf -- "$3"
"""


class PostgresServer:
    """One PostgreSQL server on a Unix socket that only this user can reach.

        with PostgresServer() as server:
            server.create_database("app")
            psycopg.connect(server.url("app"))

    Without `data` everything is in a temporary folder and gone at the end. With it the data folder
    is kept (made when it isn't there), the version is the one that made it, and the profile should
    be `durable`. `settings` go over those of the profile. `port` opens 127.0.0.1 as well: any user
    of this machine may then connect, without a password.

    `start`, `stop`, `restart` and `kill` may be called in any order, with the data staying as it
    is; `close`, and the end of the `with` block, also remove what is temporary.
    """

    def __init__(
        self,
        version: int | None = None,
        *,
        profile: Profile = "fast",
        data: Path | None = None,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        self._work = _private_folder()
        self._kept = data is not None
        self._data = self._work / "data" if data is None else data.expanduser().resolve()
        made_by = self._data / "PG_VERSION"
        if version is None and made_by.is_file():
            version = int(made_by.read_text())
        self.binaries = find_binaries(version)
        self.version = major(version_line(self.binaries)) or 0
        self.port = port
        self._settings = {**SETTINGS[profile], **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._lifeline: IO[bytes] | None = None
        self._remove = weakref.finalize(self, shutil.rmtree, self._work, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def data(self) -> Path:
        """The data folder."""
        return self._data

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._work / "server.log"

    @property
    def pid(self) -> int | None:
        """The postmaster's process, or None when it isn't running."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def url(self, database: str = "postgres") -> str:
        """The address of a database, for libpq, psycopg and asyncpg."""
        if self.port is not None:
            return f"postgresql://postgres@127.0.0.1:{self.port}/{quote(database, safe='')}"
        folder = quote(str(self._work), safe="/")
        return f"postgresql://postgres@/{quote(database, safe='')}?host={folder}&port=5432"

    def start(self) -> None:
        """Start the server and wait until it takes connections; nothing when it runs already.

        Raises: PostgresError with the end of the server's log.
        """
        if self.pid is not None:
            return
        self._dismiss_watcher()
        if not self._data.is_dir() or not any(self._data.iterdir()):
            self._make_data()
        self._refuse_other_data()
        self._refuse_if_in_use()
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            written = self.log.stat().st_size if self.log.exists() else 0
            self._launch()
            if self._wait_until_ready(give_up):
                return
            output = self.log.read_text(errors="replace")[written:]
            self._collect()
            # After a kill the old server's children take a moment to notice, and hold its memory.
            if "still in use" not in output or time.monotonic() > give_up:
                last = "\n".join(output.strip().splitlines()[-15:])
                raise PostgresError(f"PostgreSQL {self.version} didn't start. It said:\n{last}")
            time.sleep(0.05)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server: `fast` writes everything out first, `immediate` is like a crash."""
        if self.pid is not None and self._process is not None:
            self._process.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._collect()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start; addresses stay the same."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill the postmaster with a signal it can't catch, as the kernel out of memory would."""
        if self._process is not None:
            self._process.kill()
        self._collect()

    def close(self) -> None:
        """Stop, and remove what is temporary. A kept data folder is written out first."""
        self.stop("fast" if self._kept else "immediate")
        self._remove()

    def create_database(self, name: str, template: str | None = None) -> None:
        """Make a database, empty or as a copy of another, which nobody may be connected to."""
        statement = f"create database {_identifier(name)}"
        if template is not None:
            statement += f" template {_identifier(template)}"
            # The other way writes every page to the log: slower, and more to replay after a crash.
            statement += " strategy file_copy" if self.version >= 15 else ""
        self.psql(statement)

    def drop_database(self, name: str) -> None:
        """Remove a database, with all connections to it; nothing if it isn't there."""
        self.psql(f"drop database if exists {_identifier(name)} with (force)")

    def psql(self, statement: str, database: str = "postgres") -> str:
        """Run SQL with the bundled client and return its rows as bare text, one a line."""
        client = self.binaries / "psql"
        words = [str(client) if client.exists() else "psql", "-XAtq", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*words, "-d", self.url(database), "-c", statement],
            check=False,
            capture_output=True,
            text=True,
            env=environment(),
        )
        if done.returncode != 0:
            raise PostgresError(done.stderr.strip())
        return done.stdout.strip()

    # --- the steps of a start and a stop ---

    def _make_data(self) -> None:
        self._data.parent.mkdir(parents=True, exist_ok=True)
        if self._data.is_dir():
            self._data.rmdir()  # it is empty, and the copy makes its own
        new_data_folder(self.binaries, self._data)
        if self._kept:
            os.sync()  # the copy was not: a power cut soon after must not spoil what is kept

    def _refuse_other_data(self) -> None:
        """Say it clearly when the folder is of another version, or not a data folder at all."""
        made_by = self._data / "PG_VERSION"
        if not made_by.is_file():
            raise PostgresError(
                f"{self._data} holds other things than PostgreSQL's data: name another folder."
            )
        version = made_by.read_text().strip()
        if version != str(self.version):
            raise PostgresError(
                f"{self._data} holds data of PostgreSQL {version}, which {self.version} cannot "
                f"read: start version {version} on it, or name another folder."
            )

    def _refuse_if_in_use(self) -> None:
        """Say it clearly when somebody else's server has this data folder."""
        lock = self._data / "postmaster.pid"
        if not lock.exists():
            return
        pid = lock.read_text().partition("\n")[0]
        if pid.isdigit() and _is_server_on(int(pid), self._data):
            raise PostgresError(
                f"A server (process {pid}) runs on {self._data} already: use that one, or stop it."
            )
        # Left by a killed server. PostgreSQL would believe it if the number is in use again.
        lock.unlink()
        for socket in self._work.glob(".s.PGSQL.*"):
            socket.unlink()

    def _launch(self) -> None:
        """Start the server's process and the watcher that outlives this one."""
        settings = {
            "listen_addresses": "" if self.port is None else "127.0.0.1",
            "port": str(self.port or 5432),
            "unix_socket_directories": str(self._work),
            **self._settings,
        }
        words = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
        postgres = reachable(self.binaries) / "postgres"
        whom = runner()
        with self.log.open("ab") as log:
            # A session of its own: an interrupt from the keyboard is for this process alone.
            self._process = subprocess.Popen(
                [*whom.prefix, postgres, "-D", self._data, *words],
                **whom.options(),
                cwd="/",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        last_signal, leftover = ("INT", "") if self._kept else ("QUIT", str(self._work))
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", WATCHER, "watcher", str(self._process.pid), last_signal, leftover],
            cwd="/",
            env=environment(),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Held here and not by the Popen, which subprocess keeps for as long as the process lives:
        # a server that is forgotten rather than closed is stopped as well.
        self._lifeline, self._watcher.stdin = self._watcher.stdin, None

    def _wait_until_ready(self, give_up: float) -> bool:
        """Whether the server came up; the server itself notes it in its lock file."""
        assert self._process is not None
        lock = self._data / "postmaster.pid"
        while self._process.poll() is None and time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                lines = lock.read_text().split()
                if lines[:1] == [str(self._process.pid)] and lines[-1] == "ready":
                    return True
            time.sleep(0.01)
        self._process.kill()
        return False

    def _collect(self) -> None:
        """Take the server's exit, then tell the watcher that there is nothing left to watch."""
        if self._process is not None:
            self._process.wait()
            self._process = None
        self._dismiss_watcher()

    def _dismiss_watcher(self) -> None:
        if self._watcher is None or self._lifeline is None:
            return
        with contextlib.suppress(BrokenPipeError), self._lifeline:
            self._lifeline.write(b"stopped in good order\n")
        self._watcher.wait()
        self._watcher = self._lifeline = None


def _private_folder() -> Path:
    """A folder for a socket and what is temporary: short, and open to this user alone."""
    fits = len(os.fsencode(tempfile.gettempdir())) <= SOCKET_FOLDER_MAX_BYTES
    place = None if fits else "/tmp"  # noqa: S108  (mkdtemp makes it safely, anywhere)
    folder = Path(tempfile.mkdtemp(prefix="turnabout-pg-", dir=place))
    runner().own(folder)
    return folder


def _is_server_on(pid: int, data: Path) -> bool:
    """Whether a process is a PostgreSQL server on that data folder; when in doubt, it is."""
    if not Path("/proc/self").exists():
        words = ["ps", "-o", "command=", "-p", str(pid)]
        result = subprocess.run(words, check=False, capture_output=True, text=True)
        return "postgres" in result.stdout
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)  # a server works in its data folder
    except PermissionError:
        return True
    except OSError:
        return False


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
