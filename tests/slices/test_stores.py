"""A database that was set up without a slice, and a library without one that the database has."""

from contextlib import suppress
from typing import Any

import pytest

import turnabout
from tests.slices.without import Tree, copied, gone
from tests.support.postgres import Server, fresh_database
from turnabout import Sent, WrongVersion
from turnabout._connect import database
from turnabout.postgres import install
from turnabout.postgres.parts import parts
from turnabout.postgres.revision import schema
from turnabout.slices import found

WITH_SETS = [part.name for part in parts() if part.name]

USE = """
import sys, turnabout
with turnabout.connect(sys.argv[1]) as mq:
    mq.queue("q").send("x")
    (message,) = mq.queue("q").receive()
    message.ack()
from turnabout.postgres import install
print(install.up(sys.argv[1]), install.status(sys.argv[1]).pending)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return copied(tmp_path_factory.mktemp("core"), gone("all"))


def first_verb(name: str) -> Any:
    """A verb of a slice that changes nothing and needs no arguments."""
    (slice_,) = [one for one in found() if one.name == name]
    module = slice_.load("verbs")
    assert module is not None
    for kind in module.VERBS:
        with suppress(TypeError):
            verb = kind()
            if verb.reads:
                return verb
    return pytest.fail(f"{name} has no such verb")


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_SETS)
def test_a_library_without_it_works_on_a_database_that_has_it(
    name: str, tree: Tree, postgres_server: Server
) -> None:
    with fresh_database(postgres_server, fill=install.up) as url:
        before = install.status(url)
        assert tree.run("-c", USE, url).split() == ["()", "()"]
        assert install.status(url) == before
        assert before.slices[name] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_SETS)
def test_a_database_without_it_serves_the_core_and_tells_what_its_verbs_lack(
    name: str, tree: Tree, postgres_server: Server
) -> None:
    with fresh_database(postgres_server) as url:
        up = "import sys; from turnabout.postgres import install; install.up(sys.argv[1])"
        tree.run("-c", up, url)
        with turnabout.connect(url) as mq:
            assert isinstance(mq.queue("q").send("x"), Sent)
        store = database(url)
        try:
            with pytest.raises(WrongVersion, match="turnabout migrate up"):
                store.run(first_verb(name))
            assert any(step.startswith(f"{name}/") for step in install.status(url).pending)
            install.up(url)
            assert store.run(first_verb(name)) == ()
        finally:
            store.close()


def test_a_slice_s_set_is_made_for_one_revision_of_the_core() -> None:
    assert schema("pipeline", revision=7).startswith("turnabout_r7_pipeline_r")


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_SETS)
def test_a_changed_function_of_it_asks_for_a_new_revision(name: str) -> None:
    (part,) = [part for part in parts() if part.name == name]
    (slice_,) = [one for one in found() if one.name == name]
    assert install.digest(part) == slice_.digest, (
        f"its functions have changed. Has revision {slice_.revision} been released? Then raise it"
        f" in {name}/slice.py. In any case write digest={install.digest(part)!r} there."
    )
