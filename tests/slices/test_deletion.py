"""A slice's folder can be deleted: the core works without it, and simply lacks what it brought."""

import ast
import functools
import re
import textwrap
from pathlib import Path

import pytest

from tests.slices.without import NAMES, Tree, copied, gone
from tests.support.seeds import EVERYTHING
from tests.tidy.test_tree import ROOT
from turnabout import slices
from turnabout.slices import Slice

PACKAGE = ROOT / "src" / "turnabout"

FEW = [
    *("tests/conformance/test_send.py", "tests/conformance/test_receive.py"),
    *("tests/cli/test_help.py", "tests/cli/test_send.py"),
]
"""Of the core's tests, those that every run has; `dev.py test --all` runs them all."""

OTHERS = {
    "__pycache__",
    "benchmarks",
    "demo",
    "docs",
    "slices",
    "support",
    "tidy",
    "typing",
    *NAMES,
}
"""Folders beside those of the core's tests: of a slice, of the whole tree, or with no tests."""


ONE = [pytest.param(name, marks=pytest.mark.long) for name in NAMES]


@pytest.fixture(scope="module", params=[*ONE, pytest.param("all", marks=pytest.mark.slow)])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return copied(tmp_path_factory.mktemp(request.param), gone(request.param))


def commands(slice_: Slice) -> set[str]:
    module = slice_.load("commands")
    sections = {} if module is None else module.SECTIONS
    return {command.name for some in sections.values() for command in some}


def test_there_are_slices() -> None:
    assert {"pipeline", "server", "compat", "dashboard", "otel", "move", "dev"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_core_names_a_slice(name: str) -> None:
    """Not even in a function: what the core wants of slices it asks `slices.found` for."""
    others = [PACKAGE / other for other in NAMES]
    core = [path for path in PACKAGE.rglob("*.py") if not any(o in path.parents for o in others)]
    found = {
        path.relative_to(ROOT).as_posix()
        for path in core
        for module in imported(path)
        if re.match(rf"turnabout\.{name}(\.|$)", module)
    }
    assert found == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_takes_from_others_only_where_it_uses_them(name: str) -> None:
    """So it loads without them. Which files may take what is said in `pyproject.toml`."""
    (slice_,) = gone(name)
    theirs = {name, "server"} if slice_.routes else {name}  # which alone loads routes
    others = "|".join(other for other in NAMES if other not in theirs)
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (PACKAGE / name).rglob("*.py")
        for module in imported(path, late=False)
        if re.match(rf"turnabout\.({others})(\.|$)", module)
    }
    assert found == set()


@functools.cache
def imported(path: Path, *, late: bool = True) -> list[str]:
    """The modules that a file imports; with `late` also inside functions, and for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if late else tree.body
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return [
        *(alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names),
        *(node.module or "" for node in froms),
        *(f"{node.module}.{alias.name}" for node in froms for alias in node.names),
    ]


def test_a_slice_says_what_it_brings_without_loading_it(tree: Tree) -> None:
    code = """
    import sys, turnabout
    from turnabout import slices
    with turnabout.connect("sqlite://") as mq:
        mq.queue("q").send("x")
        assert [m.text() for m in mq.queue("q").receive()] == ["x"]
    print(*[s.name for s in slices.found()])
    inside = tuple(f"turnabout.{s.name}." for s in slices.found())
    print(*[n for n in sys.modules if n.startswith(inside) and not n.endswith(".slice")])
    """
    there, loaded = tree.run("-c", textwrap.dedent(code)).splitlines()
    lacking = {slice_.name for slice_ in tree.lacks}
    assert there.split() == [name for name in NAMES if name not in lacking]
    assert loaded == "", "only `slice.py` is"


def test_the_command_line_lacks_its_commands(tree: Tree) -> None:
    words = tree.run("-m", "turnabout", "--help")
    listed = set(re.findall(r"(?m)^  (\w+) {2,}\S", words))
    lacking = {name for slice_ in tree.lacks for name in commands(slice_)}
    there = {name for s in slices.found() if s not in tree.lacks for name in commands(s)}
    assert not listed & lacking
    assert {"send", "receive", "doctor", *there} <= listed
    code = f"""
    from turnabout.cli import main
    for name in {sorted(lacking)}:
        try:
            main([name])
        except SystemExit as error:
            print(error.code)
    """
    assert set(tree.run("-c", textwrap.dedent(code)).split()) == ({"2"} if lacking else set())


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in slices.found() if one.routes])
def test_a_server_without_it_lacks_its_routes_only(name: str, tmp_path: Path) -> None:
    code = """
    from turnabout.server import ServerOptions, create_app
    from turnabout.server.listening import listen, serving
    from turnabout.sqlite.async_store import AsyncSqliteStore
    app = create_app(AsyncSqliteStore("sqlite://"))
    print(*sorted({route.endpoint.__module__.split(".")[1] for route in app.router.routes}))
    with listen(ServerOptions(port=0)) as listener:
        print(serving(ServerOptions(), listener, None).dashboard is not None)
    """
    there, shown = copied(tmp_path, gone(name)).run("-c", textwrap.dedent(code)).splitlines()
    assert there.split() == sorted({"compat", "dashboard", "server", "sqs"} - {name})
    assert shown == str(name != "dashboard")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "module", "call", "words"),
    [
        ("server", "turnabout.pipeline.spark.access",
         "Access('sqlite:///x.db', token='t').namespace",
         "tokens are the server's, which this installation lacks"),
        ("otel", "turnabout", "connect('sqlite:///x.db', tracing='link')", "lacks what traces"),
    ],
)  # fmt: skip
def test_who_needs_it_is_told(
    name: str, module: str, call: str, words: str, tmp_path: Path
) -> None:
    code = f"""
    from {module} import *
    from turnabout import UsageError
    try:
        {call}
    except UsageError as error:
        print(error)
    """
    assert words in copied(tmp_path, gone(name)).run("-c", textwrap.dedent(code))


def test_a_file_is_used_with_and_without_it(tree: Tree, tmp_path: Path) -> None:
    """Made by one, used by the other, and the other way round."""
    whole = Tree(ROOT, ())
    url = f"sqlite:///{tmp_path}/app.db"
    send = ("-m", "turnabout", "send", "q", "x", "--url", url)
    check = ("-m", "turnabout", "doctor", "--url", url, "--json")
    for one in (tree, whole, tree):
        one.run(*send)
        one.run(*check)
    status = ("-m", "turnabout", "migrate", "status", "--url", url)
    assert tree.run(*status).startswith("Up to date")


def core_of(tree: Tree) -> list[str]:
    """Folders of the core's tests. Those of clients need a server."""
    is_alone = any(s.name == "server" for s in tree.lacks)
    left_out = OTHERS | ({"remote", "clients"} if is_alone else set())
    folders = [path for path in (tree.folder / "tests").iterdir() if path.is_dir()]
    return [f"tests/{path.name}" for path in folders if path.name not in left_out]


PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")


def test_all_tests_of_the_core_are_found(tree: Tree) -> None:
    """None of them imports a slice."""
    assert " tests collected" in tree.run(*PYTEST, "--collect-only", *core_of(tree))


@pytest.mark.timeout(1_800 if EVERYTHING else 150)
def test_the_core_passes_its_tests(tree: Tree) -> None:
    marked = "not bench and not spark" if EVERYTHING else "not slow and not bench"
    words = [*PYTEST, "-k", "not http", "-m", marked]
    said = tree.run(*words, *(core_of(tree) if EVERYTHING else FEW), seconds=1_800)
    assert " passed" in said
