"""What is served as the dashboard: our own files, and nothing else may run in the page."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import turnabout.dashboard
from tests.support.each import each
from tests.support.served import WIDE, served
from turnabout.server import ServerOptions

STATIC = Path(turnabout.dashboard.__file__).parent / "static"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with served("sqlite://") as server, httpx2.Client(base_url=server.url) as client:
        yield client


def test_every_file_has_the_headers_that_keep_all_else_out(client: httpx2.Client) -> None:
    for name in ["", "schedules", *(path.name for path in STATIC.iterdir())]:
        answer = client.get(f"/dashboard/{name}")
        assert answer.status_code == 200, name
        policy = answer.headers.get_list("content-security-policy")
        assert len(policy) == 1
        assert policy[0].startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            "img-src 'self'; frame-ancestors 'none'"
        )
        assert "unsafe" not in policy[0]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "charset=utf-8" in answer.headers["content-type"] or name.endswith("svg")


def test_the_root_leads_there(client: httpx2.Client) -> None:
    for path in ("/", "/dashboard", "/web"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (307, "/dashboard/")


def test_a_copy_that_is_up_to_date_is_not_sent_again(client: httpx2.Client) -> None:
    first = client.get("/dashboard/live.js")
    again = client.get("/dashboard/live.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name",
    [
        "none.js",
        "..%2f__init__.py",
        "__init__.py",
        "%2e%2e/__init__.py",
        "base.html",
        "style.css/x",
    ],
)
def test_nothing_else_is_served(client: httpx2.Client, name: str) -> None:
    assert client.get(f"/dashboard/{name}").status_code == 404


def test_it_can_be_left_out() -> None:
    off = ServerOptions(auth="none", dashboard=False, max_body_bytes=WIDE.max_body_bytes)
    with served("sqlite://", options=off) as server, httpx2.Client(base_url=server.url) as client:
        for path in ("/", "/dashboard/", "/web"):
            assert client.get(path).status_code == 404


@each("path", sorted([*STATIC.iterdir(), *(STATIC.parent / "templates").iterdir()]))
def test_a_file_has_nothing_inline_and_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", text)
    assert not re.search(r"localStorage|document\.cookie", text)
