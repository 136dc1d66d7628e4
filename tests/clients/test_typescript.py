"""The TypeScript client: its own tests against our server, its types, its package, its README.

`tests/clients/node.py` says which programs are wanted, and what is skipped without them.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.clients.node import CLIENT, Node
from tests.docs.pages import agrees, blocks
from tests.support.programs import run
from tests.support.served import WIDE, Server, served
from tools import typescript
from turnabout import connect
from turnabout.cli import main

pytestmark = pytest.mark.slow

LINES_MAX = 900
SUITES = ("client", "loops")
PACKED = r"(LICENSE|README\.md|package\.json|(dist|src)/\w+(\.js|\.d\.ts|\.ts))"
README = CLIENT / "README.md"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with served(f"sqlite:///{tmp_path}/app.db") as server:
        yield server


@pytest.fixture
def env(server: Server, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What the tests in Node are told: of a server, and of one that wants a token."""
    url = f"sqlite:///{tmp_path}/guarded.db"
    words = ["token", "create", "--label", "test", "--scope", "operate", "--url", url]
    made = CliRunner().invoke(main, words, prog_name="turnabout")
    token = re.search(r"tbt_\S+", made.output)
    assert token, made.output
    with served(url, options=replace(WIDE, auth="tokens")) as guarded:
        yield {
            "TURNABOUT_TEST_URL": server.url,
            "TURNABOUT_TEST_GUARDED_URL": guarded.url,
            "TURNABOUT_TEST_TOKEN": token[0],
        }


def test_the_types_are_those_of_the_openapi_document() -> None:
    written = typescript.TARGET.read_text(encoding="utf-8")
    assert written == typescript.schema_ts(), "run: python tools/typescript.py"


def test_it_stays_small() -> None:
    files = [path for path in CLIENT.glob("src/*.ts") if path != typescript.TARGET]
    files += [*CLIENT.parent.glob("go/*.go"), *CLIENT.parent.glob("shell/*.sh")]
    lines = {path.name: path.read_text(encoding="utf-8").count("\n") for path in files}
    assert sum(lines.values()) <= LINES_MAX, lines


def test_its_lock_holds_names_versions_and_hashes_only() -> None:
    lock = json.loads((CLIENT / "package-lock.json").read_text(encoding="utf-8"))
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-")


@pytest.mark.parametrize("suite", SUITES)
def test_its_own_tests_pass(node: Node, env: dict[str, str], suite: str) -> None:
    run(node.program, "--test", str(CLIENT / f"test/{suite}.test.mjs"), env=env | node.env)


def test_a_worker_outlives_a_restart_of_the_server(node: Node, server: Server) -> None:
    with connect(server.url) as mq:
        queue = mq.queue("restart")
        for milliseconds in (0, 700):
            queue.send(milliseconds)
        program = [node.program, str(CLIENT / "test/program.mjs"), server.url, "restart"]
        worker = subprocess.Popen(
            program, stdout=subprocess.PIPE, text=True, env={**os.environ, **node.env}
        )
        assert worker.stdout is not None
        told = iter(worker.stdout)
        try:
            until(told, "begin 700")
            server.stop()  # while a handler runs, whose end can't be told
            until(told, "end 700")
            server.start()
            queue.send(1)
            until(told, "end 1")
            worker.terminate()
            counts = until(told, "{")
        finally:
            worker.kill()
            worker.wait()
            worker.stdout.close()
        assert json.loads(counts) == {"handled": 3, "failed": 0, "released": 0, "lost": 0}
        assert queue.stats().done == 3


def until(lines: Iterator[str], start: str) -> str:
    """The next line that begins so."""
    return next(line for line in lines if line.startswith(start))


def example(server: Server) -> tuple[str, str]:
    """The README's example with output, for this server, and the output."""
    found = blocks(README.read_text(encoding="utf-8"))
    (block,) = (block for block in found if block.language == "ts" and block.output)
    assert block.output is not None
    return block.text.replace("http://127.0.0.1:8080", server.url), block.output


def test_the_example_of_its_readme_runs(node: Node, server: Server, tmp_path: Path) -> None:
    if not node.strips_types:
        pytest.skip("this Node doesn't run TypeScript; the next test compiles the example")
    text, output = example(server)
    program = tmp_path / "example.mts"
    program.write_text(text.replace('"turnabout-client"', json.dumps(node.entry.as_uri())))
    printed = run(node.program, str(program))
    assert agrees(printed, output), printed
    with connect(server.url) as mq:
        assert mq.queue("emails").stats().done == 2


def test_it_compiles_and_its_package_holds_what_belongs(
    built: Path, node: Node, server: Server, tmp_path: Path
) -> None:
    listing = run("npm", "pack", "--dry-run", "--json", "--ignore-scripts", folder=built)
    files = {one["path"] for one in json.loads(listing)[0]["files"]}
    assert [path for path in files if not re.fullmatch(PACKED, path)] == []
    assert {"README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "src/index.ts"} <= files
    run("npm", "pack", "--ignore-scripts", "--pack-destination", str(tmp_path), folder=built)
    (package,) = tmp_path.glob("*.tgz")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    run("npm", "install", "--offline", "--ignore-scripts", str(package), folder=tmp_path)
    text, output = example(server)
    program = tmp_path / "example.mts"
    options = {"strict": True, "module": "nodenext", "target": "es2022", "lib": ["es2022", "dom"]}
    settings = {"compilerOptions": {**options, "types": []}, "files": [program.name]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    tsc = str(built / "node_modules/.bin/tsc")
    known = "declare const process: { env: Record<string, string | undefined> };\n"
    program.write_text(known + text)
    run(tsc, folder=tmp_path)
    printed = run(node.program, str(program.with_suffix(".mjs")))
    assert agrees(printed, output), printed
    program.write_text(known + text.replace("dedupKey", "dedup_key"))
    with pytest.raises(AssertionError, match="dedup_key"):  # the types are there
        run(tsc, folder=tmp_path)


def test_what_was_compiled_passes_them_too(built: Path, node: Node, env: dict[str, str]) -> None:
    entry = (built / "dist/index.js").as_uri()
    suites = [str(CLIENT / f"test/{suite}.test.mjs") for suite in SUITES]
    run(node.program, "--test", *suites, env={**env, "TURNABOUT_CLIENT": entry})
