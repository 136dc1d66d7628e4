"""The site: four parts with every page in them, whole links, and nothing from other hosts."""

import importlib.util
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

import turnabout
import turnabout.aio
import turnabout.move
import turnabout.pipeline
import turnabout.server
import turnabout.tasks.public
import turnabout.worker
from tests.docs.pages import BLOCK, ROOT, name
from tests.support.each import each

DOCS = ROOT / "docs"
PUBLIC = (
    turnabout,
    turnabout.aio,
    turnabout.move,
    turnabout.pipeline,
    turnabout.server,
    turnabout.tasks.public,
    turnabout.worker,
)
PARTS = ["Start", "Tutorial", "How-to", "Reference", "Explanation"]
PARTS += ["For people who change the code"]


def tool(file: str) -> ModuleType:
    """Load a file of `tools/` by its path, as that folder is not a package."""
    specification = importlib.util.spec_from_file_location(file, ROOT / "tools" / f"{file}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


SITE = tool("docs_site")
PAGES = [path for path in SITE.sources() if path.suffix == ".md"]


def flat(entry: Any) -> Iterator[str]:
    """The pages that an entry of the navigation leads to."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from flat(part)


# --- the pages -----------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = tomllib.loads(SITE.settings())["project"]["nav"]
    assert [title for part in navigation for title in part] == PARTS
    assert sorted(flat(navigation)) == sorted(p.relative_to(DOCS).as_posix() for p in PAGES)


@each("page", [page for page in PAGES if "decisions" not in page.parts])
def test_a_page_opens_with_what_it_is_for(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8")).strip()
    title, opening = [line for line in text.splitlines() if line][:2]
    assert title.startswith("# ")
    assert re.match(r"[\w`*\[]", opening), opening
    assert not opening.startswith(("```", "* ")), opening


@each("page", PAGES)
def test_a_page_is_plain_markdown(page: Path) -> None:
    """What is in a tab, a snippet or an include, the tests of examples don't see."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    assert re.findall(r"^ *(?:===|!!!|\?\?\?|--8<--|\{[%!]).*", text, re.MULTILINE) == [], name(
        page
    )


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(p.read_text(encoding="utf-8") for p in (DOCS / "reference").glob("*.md"))
    told = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    assert {f"{m.__name__}.{word}" for m in PUBLIC for word in m.__all__} - told == set()


def test_a_link_out_of_docs_is_a_whole_url_or_text(monkeypatch: pytest.MonkeyPatch) -> None:
    page, text = DOCS / "how-to" / "a.md", "[it](../../README.md#x), [in](../index.md)\n"
    monkeypatch.setattr(SITE, "repository_url", lambda: "https://git.example.com/turnabout")
    there = "https://git.example.com/turnabout/blob/main/README.md#x"
    assert SITE.page(page, text) == f"[it]({there}), [in](../index.md)\n"
    monkeypatch.setattr(SITE, "repository_url", lambda: None)
    assert SITE.page(page, text) == "it, [in](../index.md)\n"
    assert SITE.page(page, f"```text\n{text}```\n") == f"```text\n{text}```\n"


def test_lists_are_as_github_reads_them() -> None:
    assert SITE.for_python_markdown("So:\n- a\n  b\n\n  c\n- d\nno\n") == (
        "So:\n\n- a\n    b\n\n    c\n- d\nno\n"
    )
    assert SITE.for_python_markdown("1. a\n   ```sh\n   - b\n   ```\n") == (
        "1. a\n    ```sh\n    - b\n    ```\n"
    )


def test_lines_of_a_docstring_become_a_list() -> None:
    text = "Send.\n\nkey:    a name,\n        or none.\nRaises: Busy.\n\nNote: no list.\n"
    assert tool("docs_griffe").with_lists(text, {"key"}) == (
        "Send.\n\n- `key`: a name,\n    or none.\n- **Raises**: Busy.\n\nNote: no list."
    )


# --- the built site ------------------------------------------------------------------------------


@cache
def html(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(re.findall(r'\bid="([^"]+)"', html(page)))


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether a link of a page to the site itself leads to a file, and to a part of it."""
    target, _, part = link.partition("#")
    there = page.parent / unquote(target) if target else page
    return there.is_file() and (
        not part or part == "__skip" or unquote(part) in anchors(there.resolve())
    )


@pytest.mark.slow
def test_the_site_is_whole_and_asks_no_other_host(tmp_path: Path) -> None:
    """But for the docstrings of the large pages of the reference, which take most of the time."""
    SITE.stage(tmp_path)
    for page in (tmp_path / "docs" / "reference").glob("*.md"):
        if page.name not in {"alembic.md", "move.md"}:
            page.write_text(page.read_text(encoding="utf-8").partition(":::")[0])
    check_site(tmp_path, SITE.build_staged(tmp_path))


@pytest.mark.long
def test_the_whole_site_is(tmp_path: Path) -> None:
    check_site(tmp_path, SITE.build(tmp_path))
    reference = html(tmp_path / "site" / "reference" / "turnabout.html")
    assert re.search(r'id="turnabout\.Queue\.send"', reference)


def check_site(folder: Path, done: subprocess.CompletedProcess[str]) -> None:
    """Pages, links, hosts, search."""
    assert done.returncode == 0, done.stdout[-3000:]
    site = folder / "site"
    pages = [page.resolve() for page in site.rglob("*.html") if page.name != "404.html"]
    assert {p.relative_to(site.resolve()).with_suffix(".md").as_posix() for p in pages} == {
        p.relative_to(DOCS).as_posix() for p in PAGES
    }
    broken, elsewhere = [], []
    for page in pages:
        tags = re.findall(r"<(\w+)\b([^>]*)>", html(page))
        for tag, attributes in tags:
            for link in re.findall(r'\b(?:href|src|poster|data)="([^"]*)"', attributes):
                if re.match(r"(?:\w+:)?//", link):
                    elsewhere += [f"{page.name}: {link}"] if tag != "a" else []
                elif not re.match(r"\w+:", link) and not leads_somewhere(page, link):
                    broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []
    assert elsewhere == []
    styles = "\n".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )['\"]?(?:\w+:)?//[^)]*", styles) == []
    found = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    assert any("lease" in item["text"] and "lease.html" in item["location"] for item in found)
    assert not any("unpkg" in html(page) for page in pages)
