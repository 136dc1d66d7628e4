"""What the pages show is true: every block of Python and every command line runs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import PAGES, ROOT, agrees, blocks, name, opened
from tests.support.postgres import migrated
from tests.support.served import served
from tests.support.spark import work_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_in_python(page: Path, words: str) -> bool:
    return any(b.language == "python" and words in b.text for b in blocks(page.read_text()))


WITH_CODE = [page for page in PAGES if any(b.language != "text" for b in blocks(page.read_text()))]
WITH_SPARK = [
    page
    for page in WITH_CODE
    if any(
        ("turnabout.pipeline" in b.text and b.language == "python")
        or ("turnabout pipeline" in b.text and b.language == "sh")
        for b in blocks(page.read_text())
    )
]
"""These share the session of this test process: what `session()` gives in their Python."""
OF_SQLITE = [ROOT / "docs/how-to" / name for name in ("sql-producers.md", "upgrade.md")]
"""Their blocks stand under a heading that says so; what is for PostgreSQL has tests of its own."""
ON_POSTGRES = [
    page
    for page in WITH_CODE
    if page not in [*WITH_SPARK, *OF_SQLITE]
    and (
        page.parent == ROOT / "docs"
        or page.name == "README.md"
        or is_in_python(page, "sqlite:///app.db")
    )
]


DATABASE = "postgresql://app@localhost/app"
"""In the Python of a page with Spark: there is one for that page alone."""
SERVER = "http://127.0.0.1:8080"
"""In the Python of a page: there is a server for that page alone."""


def run(page: Path, folder: Path, change: Callable[[str], str] = str) -> None:
    text = page.read_text()
    with contextlib.ExitStack() as stack:
        if any(b.language == "python" and SERVER in b.text for b in blocks(text)):
            server = stack.enter_context(served(f"sqlite:///{folder}/served.db"))
            change = _then(change, lambda text: text.replace(SERVER, server.url))
        run = stack.enter_context(opened(page, folder, change))
        for block in blocks(text):
            run.block(block)


def _then(first: Callable[[str], str], second: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: second(first(text))


@pytest.mark.parametrize("page", [p for p in WITH_CODE if p not in WITH_SPARK], ids=name)
@pytest.mark.slow
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path)


@pytest.mark.share(1)
@pytest.mark.parametrize("page", WITH_SPARK, ids=name)
def test_the_code_of_a_page_with_spark_runs(
    page: Path, tmp_path: Path, spark: SparkSession
) -> None:
    work_in(spark, tmp_path)
    here = f"sqlite:///{tmp_path}/app"  # its workers stay where they were started
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(migrated()) if is_in_python(page, DATABASE) else DATABASE
        run(page, tmp_path, lambda text: text.replace("sqlite:///app", here).replace(DATABASE, url))


@pytest.mark.slow
@pytest.mark.share(13)
@pytest.mark.parametrize("page", ON_POSTGRES, ids=name)
def test_it_runs_on_postgresql_too(page: Path, tmp_path: Path) -> None:
    with migrated() as url:
        run(page, tmp_path, lambda text: elsewhere(text, url))


def elsewhere(text: str, url: str) -> str:
    """The same code with another database: its URL, and connections of one's own to it."""
    text = re.sub(r"\n\w+[.]execute\(.pragma .*", "", text)  # of SQLite's alone
    own = f"__import__('psycopg').connect({url!r})"
    text = text.replace("sqlite:///app.db", url).replace('sqlite3.connect("app.db")', own)
    return text.replace("values (?)", "values (%s)").replace("values (?, ?)", "values (%s, %s)")


def test_figures_for_sizing_are_those_of_the_benchmark() -> None:
    measured = (ROOT / "docs/performance.md").read_text()
    text = (ROOT / "docs/how-to/deploy.md").read_text().partition("## Sizing")[2]
    links = re.findall(r"\[([\d.,]+) [^]]*\]\(\.\./performance\.md#([\w-]+)\)", text)
    assert len(links) == 8
    for figure, heading in links:
        parts = {re.sub(r"[^\w -]", "", p.partition("\n")[0].lower()).replace(" ", "-"): p
                 for p in measured.split("\n## ")}  # fmt: skip
        assert re.search(rf"\| {re.escape(figure)}( \(|\b)", parts[heading]), figure


def test_pages_have_code() -> None:
    assert len(WITH_CODE) > 10


def test_a_block_has_its_line_and_its_output() -> None:
    text = "# Title\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nWords.\n\n```text\n2\n```\n"
    first, second = blocks(text)
    assert (first.line, first.language, first.output) == (3, "python", "1\n")
    assert (second.language, second.output) == ("text", None)


def test_a_block_that_lies_is_found(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    with opened(page, tmp_path) as run:
        for text in (
            "```python\nprint(1)\n```\n\n```text\n2\n```\n",
            "```sh\nturnabout stats --no-such-option\n```\n",
            "```sh\npython3 dev.py nothing\n```\n",
            "```sh\npip install '.[nothing]'\n```\n",
            "```sh\npip install 'turnabout[postgres]'\n```\n",
        ):
            with pytest.raises(BaseException):  # noqa: B017, PT011 - an assertion, or click's
                run.block(blocks(text)[0])


def test_dots_stand_for_anything() -> None:
    assert agrees("a 12 ms b\n", "a … b\n")
    assert not agrees("a 12 ms c\n", "a … b\n")
