"""PgBouncer in transaction mode before a server of PostgreSQL, where the machine has one."""

import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.until import until

PORT = 6432
INI = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr =
listen_port = {PORT}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
server_login_retry = 1
"""


@contextmanager
def pooled(url: str) -> Generator[str]:
    """The URL of the same database through a pooler of one's own; skips the test without one."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed on this machine")
    from turnabout.dev.pgserver._programs import runner

    to = conninfo_to_dict(url)
    with tempfile.TemporaryDirectory(prefix="turnabout-pooler-") as name:
        folder = Path(name)
        ini = INI.format(host=to["host"], port=to.get("port", 5432), PORT=PORT, folder=folder)
        (folder / "users.txt").write_text(f'"{to["user"]}" ""\n')
        (folder / "pooler.ini").write_text(ini)
        runner().own(folder)  # it refuses to run as root, as PostgreSQL does
        with (folder / "log").open("wb") as log:
            words = [*runner().prefix, program, folder / "pooler.ini"]
            process = subprocess.Popen(words, stdout=log, stderr=log, **runner().options())
        try:
            through = f"postgresql://{to['user']}@/{to['dbname']}?host={folder}&port={PORT}"
            until(lambda: answers(through), lambda: (folder / "log").read_text())
            yield through
        finally:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
