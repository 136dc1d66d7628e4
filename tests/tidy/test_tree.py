"""The rules that no linter knows: sizes, what may be named, and what a lock may hold."""

import ast
import functools
import re
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

import dev

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LINE_LENGTH_MAX = 100

# Written so that they don't find themselves.
NAMES_OF_A_PLACE = {
    "a home folder": r"/(home|Users)/(?!you\b|me\b|ada\b)\w|/[r]oot/",
    "a package index": r"pypi[.]org|pythonhosted[.]org|registry[.]npmjs|deb[.]debian[.]org",
    "the address of a package": r"https?://\S+[.](whl|tar[.]gz|tgz|deb)\b",
}
LOCK_LINE = re.compile(
    r"#.*"
    r"|[a-z0-9-]+==[\w.]+( ; [^/@]+)? \\"
    r"|    --hash=sha256:[0-9a-f]{64}( \\)?"
)


class Definition(NamedTuple):
    """A function or a class, from its first line to its last."""

    name: str
    line: int
    end: int
    is_class: bool


@functools.cache
def tracked() -> tuple[Path, ...]:
    """The files that are, or are about to be, in the repository."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True)
        paths = [ROOT / name for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # a source archive, or another user's clone
        paths = [
            path
            for folder in ("src", "tests", "tools")
            for path in ROOT.joinpath(folder).rglob("*")
        ]
        paths += ROOT.glob("*.*")
    kept = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return tuple(sorted(kept))


def sources(*folders: str, ends: tuple[str, ...] = (".py",)) -> list[Path]:
    """The tracked files in these folders (`dev.py` is one, too) with these endings."""
    wanted = [ROOT / folder for folder in folders]
    found = [
        path
        for path in tracked()
        if path.suffix in ends and any(path.is_relative_to(folder) for folder in wanted)
    ]
    assert found, f"nothing in {folders}"
    return found


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


@functools.cache
def outline(path: Path) -> tuple[str | None, tuple[Definition, ...]]:
    """A module's docstring, and its functions and classes. Its whole tree is too large to keep."""
    tree = ast.parse(text_of(path))
    return ast.get_docstring(tree), tuple(
        Definition(node.name, node.lineno, node.end_lineno or 0, isinstance(node, ast.ClassDef))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


CODE = ("src", "tools", "benchmarks", "demo", "dev.py")


def test_a_file_fits_in_the_head() -> None:
    lines = {
        name(path): text_of(path).count("\n")
        for path in sources(*CODE, "tests", ends=(".py", ".sql"))
    }
    assert {path: count for path, count in lines.items() if count > FILE_LINES_MAX} == {}


def test_a_function_fits_on_a_screen() -> None:
    too_long = {
        f"{name(path)}:{one.line} {one.name}": length
        for path in sources(*CODE, "tests")
        for one in outline(path)[1]
        if not one.is_class and (length := one.end - one.line + 1) > FUNCTION_LINES_MAX
    }
    assert too_long == {}


def test_a_line_fits_in_a_window() -> None:
    too_long = [
        f"{name(path)}:{number}"
        for path in sources("src", "tools", "dev.py", ends=(".py", ".sql"))
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]
    assert too_long == []


def test_every_file_opens_with_what_lives_in_it() -> None:
    silent = [
        name(path)
        for path in sources(*CODE, "tests")
        if text_of(path).strip() and outline(path)[0] is None
    ]
    silent += [
        name(path)
        for path in sources("src", ends=(".sql",))
        if not text_of(path).startswith(("--", "/*"))
    ]
    assert silent == []


def test_the_old_name_stands_in_one_line_of_the_changelog() -> None:
    old = re.compile(r"^(?=.*pen[s]tock).*$", re.IGNORECASE | re.MULTILINE)
    assert [line.partition(":")[0] for line in found_in_tree(old)] == ["CHANGELOG.md"]


@pytest.mark.parametrize("what", NAMES_OF_A_PLACE)
def test_nothing_names_the_place_where_it_was_made(what: str) -> None:
    pattern = re.compile(NAMES_OF_A_PLACE[what])
    assert found_in_tree(pattern) == []


def test_nothing_names_this_folder() -> None:
    # In a folder that is as short as `/src`, the name of ours may well be somebody's example.
    if len(ROOT.parts) > 2:
        assert found_in_tree(re.compile(re.escape(str(ROOT)) + r"\b")) == []


def found_in_tree(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name(path)}: {hit[0]}" for path in tracked() for hit in pattern.finditer(text_of(path))
    ]


@pytest.mark.parametrize("lock", [*dev.LOCKS.values(), dev.PEERS_LOCK], ids=lambda path: path.name)
def test_a_lock_holds_names_versions_and_hashes_only(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    assert [line for line in lines if not LOCK_LINE.fullmatch(line)] == []
    assert sum("--hash" in line for line in lines) > sum("==" in line for line in lines)


def test_the_demo_runs_on_the_versions_that_are_tested() -> None:
    demo, docs, pipeline, tested = (
        set(re.findall(r"^\S+==\S+", dev.LOCKS[what].read_text(), re.MULTILINE))
        for what in dev.LOCKS
    )
    assert demo <= pipeline
    assert pipeline | docs <= tested


def test_every_requirement_is_locked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, groups = settings["project"], settings["dependency-groups"]
    wanted = [*project["dependencies"], *groups["build"]]
    wanted += [word for word in groups["dev"] if isinstance(word, str)]
    wanted += [word for extra in project["optional-dependencies"].values() for word in extra]
    names = {re.split(r"[^a-z0-9-]", word)[0] for word in wanted} - {"turnabout"}
    assert names - locked_in(dev.LOCKS["dev"]) == set(), "run: python3 dev.py lock"
    for group, lock in (("peers", dev.PEERS_LOCK), ("docs", dev.LOCKS["docs"])):
        names = {re.split(r"[^a-z0-9-]", word)[0] for word in groups[group]}
        assert names - locked_in(lock) == set(), "run: python3 dev.py lock"


def locked_in(lock: Path) -> set[str]:
    return set(re.findall(r"^(\S+)==", lock.read_text(), re.MULTILINE))


TWICE = {
    "AsyncMessage": "a worker's message is the ordinary one, with more to it",
    "Delivery": "the value, and its form on the wire, which the OpenAPI document shows by name",
    "Defer": "the verb, and what a handler raises to have its message deferred",
}
"""Names that two classes have, and why."""


def test_a_class_has_its_name_for_itself() -> None:
    """One word for one thing; the blocking classes are generated from the asyncio ones."""
    found: dict[str, list[str]] = {}
    for path in sources("src", ends=(".py",)):
        if "_sync" not in path.parts:
            for one in outline(path)[1]:
                if one.is_class:
                    found.setdefault(one.name.lstrip("_"), []).append(name(path))
    assert {
        word: paths for word, paths in found.items() if len(paths) > 1 and word not in TWICE
    } == {}
