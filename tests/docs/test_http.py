"""Each curl command of `docs/http.md` gets the answer that the page shows."""

import http.client
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import ROOT, blocks
from tests.support.served import served

PAGE = ROOT / "docs" / "http.md"
SERVER = "http://127.0.0.1:8080"
WITH_CURL = shutil.which("curl") is not None


def matches(told: Any, answered: Any) -> bool:
    """Whether an answer is as told; `"…"` is anything."""
    if told == "…":
        return True
    if isinstance(told, dict) and isinstance(answered, dict):
        return told.keys() == answered.keys() and all(matches(told[k], answered[k]) for k in told)
    if isinstance(told, list) and isinstance(answered, list):
        return len(told) == len(answered) and all(map(matches, told, answered))
    return type(told) in {type(answered), int} and told == answered


def by_hand(words: list[str]) -> str:
    """What curl would print: it knows the options that the page uses."""
    method, body, headers, url = None, None, {}, ""
    rest = iter(words[1:])
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d" | "--data-binary":
                body = next(rest).encode()
            case "-N" | "-s":
                pass
            case _:
                url = word
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def with_curl(words: list[str]) -> str:
    done = subprocess.run(
        [words[0], "-sS", "--max-time", "30", *words[1:]],
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("run", [by_hand, with_curl] if WITH_CURL else [by_hand])
def test_the_page_shows_what_is_answered(run: Any, tmp_path: Path) -> None:
    found = blocks(PAGE.read_text())
    commands = [block for block in found if block.language == "sh"]
    assert len(commands) > 15
    with served(f"sqlite:///{tmp_path}/page.db") as server:
        for place, block in enumerate(found):
            if block.language != "sh":
                continue
            words = shlex.split(block.text.replace("\\\n", " ").replace(SERVER, server.url))
            assert words[0] == "curl"
            printed = run(words)
            shown = found[place + 1]
            assert shown.language == "json", block
            assert matches(json.loads(shown.text), json.loads(printed)), (block.line, printed)


def test_an_answer_that_differs_is_seen() -> None:
    assert matches({"a": ["…", 1]}, {"a": [{}, 1]})
    assert not matches({"a": 1}, {"a": 1, "b": 2})
    assert not matches([1], [2])
    assert not matches({"a": 1}, {"a": "1"})
