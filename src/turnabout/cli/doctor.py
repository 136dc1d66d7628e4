"""`doctor`: is everything as it should be? What a store's file or server is asked: its `doctor`."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from turnabout import slices
from turnabout.cli import _places, _show
from turnabout.cli._app import App, negative
from turnabout.cli._check import Check, Checked, check_of
from turnabout.cli._declare import command
from turnabout.words.errors import TurnaboutError
from turnabout.words.extras import UPGRADE_HINT, install_hint
from turnabout.words.findings import Finding, fail, ok, warn
from turnabout.words.value import replace

_WORDS = (("fail", "failure"), ("warn", "warning"))
LIBRARIES = ("click", "rich", "msgspec")
QUEUES_OF_DOCTOR = 20
MARKS = {"ok": _show.green, "warn": _show.yellow, "fail": _show.bad}


@command(
    "doctor",
    "turnabout doctor",
    "turnabout doctor --url postgresql://app@localhost/app",
    "turnabout doctor --json | jq '.checks[] | select(.level != \"ok\")'",
    json=Checked,
)
def doctor(app: App) -> None:
    """Check versions, the database, and that all counts add up.

    It says what to do about what is wrong. It changes nothing. Exit code 1 if a check failed;
    warnings leave it at 0.
    """
    found: list[Check] = []
    for check in checks_of(app.url):
        found.append(check)
        if not app.as_json:
            show_check(check)
    levels = Counter(check.level for check in found)
    if app.as_json:
        app.say(Checked(app.place, not levels["fail"], tuple(found)), "")
    else:
        _show.out(f"\n{_summary(app.place, levels)}")
    if levels["fail"]:
        negative()


def checks_of(url: str) -> Iterator[Check]:
    """Yield each finding of doctor, without the URL's secrets."""
    return (scrubbed(finding, url) for finding in _all(url))


def _all(url: str) -> Iterator[Finding]:
    yield ok("Turnabout", version_of("turnabout") or "from its source folder")
    yield ok("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    found = (f"{name} {version_of(name) or 'is missing'}" for name in LIBRARIES)
    yield ok("libraries", ", ".join(found))
    if _places.is_sqlite(url) or _places.is_postgres(url):
        yield from _database(url)
    elif _places.is_server(url):
        yield from _server(url)
    else:
        todo = "use sqlite:///path, postgresql://user@host/database or http://host:port"
        yield fail("database", f"{_places.without_password(url)} is not a URL of a store", todo)


def _database(url: str) -> Iterator[Finding]:
    """The findings of the store's doctor, then the answers of verbs."""
    from turnabout._connect import findings

    if _places.is_postgres(url) and find_spec("psycopg") is None:
        yield fail("psycopg", "is not installed", install_hint("postgres"))
        return
    is_there = True
    for finding in findings(url):
        yield finding
        is_there &= finding.name not in ("database", "primary")
    if is_there:
        yield from _schema_and_slices(url)


def _server(url: str) -> Iterator[Finding]:
    """Whether a server can be used; what is behind it can only be seen with the database's URL."""
    from turnabout import connect

    place = _places.without_password(url)
    try:
        with connect(url) as turnabout:
            queues = turnabout.queues()
    except TurnaboutError as error:
        yield fail("server", str(error), "see what it says, then run doctor again")
        return
    yield ok("server", f"{place} answers, and shows {_show.plural(len(queues), 'queue')}")
    yield warn(
        "database",
        "not checked: a server shows only its API",
        "run: turnabout doctor --url sqlite:///path, or postgresql://…, of the database behind it",
    )


def _schema_and_slices(url: str) -> Iterator[Finding]:
    """Slices look by their own verbs, which an older schema does not know."""
    schema = schema_of(url)
    yield schema
    if schema.level == "ok":
        yield from fairness_of(url)
        for module in slices.modules("checks"):
            yield from module.checks(url)


def fairness_of(url: str) -> Iterator[Finding]:
    """Look for starved channels in the queues with the most ready messages."""
    from turnabout import connect

    with connect(url) as turnabout:
        waiting = [one for one in turnabout.stats() if one.ready]
        bad = 0
        for queue in sorted(waiting, key=lambda one: -one.ready)[:QUEUES_OF_DOCTOR]:
            well, text = turnabout.queue(queue.queue).fairness(1).verdict()
            if not well:
                bad += 1
                todo = f"see who, and what holds the workers: turnabout stats {queue.queue}"
                yield warn("fairness", f"{queue.queue}: {text}", todo)
    if not bad:
        yield ok("fairness", "no channel is starved, and nothing waits unserved")


def schema_of(url: str) -> Finding:
    """Show the database's migration state."""
    from turnabout._connect import installer

    try:
        status = installer(url).status(url)
    except TurnaboutError as error:
        return fail("schema", str(error), "see what it says, then run doctor again")
    if status.too_new:
        text = f"step {status.current}, beyond this library's {status.wanted}"
        return fail("schema", text, UPGRADE_HINT)
    if status.pending:
        text = f"not applied yet: {', '.join(status.pending)}"
        return fail("schema", text, "run: turnabout migrate up")
    return ok("schema", f"up to date, at step {status.current}")


def version_of(name: str) -> str | None:
    """Look up a package's version; None: it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def scrubbed(finding: Finding, url: str) -> Check:
    """A finding without the URL's secrets, should a library have quoted one."""
    check = check_of(finding)
    return replace(check, text=_places.scrub(check.text, url), todo=_places.scrub(check.todo, url))


def show_check(check: Check) -> None:
    """Print a finding."""
    mark = MARKS[check.level](check.level.ljust(4))
    _show.out(f"{mark}  {check.name.ljust(20)}  {_show.clean(check.text)}")
    if check.todo:
        _show.out(f"{'':28}→ {_show.clean(check.todo)}")
    if _show.is_terminal():
        sys.stdout.flush()


def _summary(place: str, levels: Counter[str]) -> str:
    if not levels["fail"] and not levels["warn"]:
        return _show.green(f"All is well with {place}.")
    parts = [_show.plural(levels[level], word) for level, word in _WORDS if levels[level]]
    return f"{place}: {', '.join(parts)}."
