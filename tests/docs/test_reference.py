"""Nothing is left out: each error, outcome, limit, setting, option, verb, command has its place."""

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from msgspec.structs import fields

import turnabout
from tests.docs.pages import BLOCK, ROOT
from tests.support.each import each
from turnabout import Policy, QueueSettings, slices
from turnabout.cli import main
from turnabout.postgres.url import PostgresOptions
from turnabout.sqlite._url import Place
from turnabout.words import errors, limits, outcomes, policy
from turnabout.words.findings import PROMISES, Question
from turnabout.worker import Worker, WorkerStats
from turnabout.worker.message import Message as WorkerMessage

DOCS = ROOT / "docs"
OF_SLICES: dict[str, Question] = {
    name: question
    for module in slices.modules("checks")
    for name, question in module.QUESTIONS.items()
}


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def rows(name: str) -> dict[str, list[str]]:
    """The rows of a page's tables: for each word in backticks in a first cell, the other cells."""
    found: dict[str, list[str]] = {}
    for line in page(name).splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            for word in re.findall(r"`([^`]+)`", cells[0]):
                found.setdefault(word, cells[1:])
    return found


def classes(module: ModuleType) -> list[type[Any]]:
    return [
        c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__
    ]


@each("error", classes(errors))
def test_every_error_is_listed_with_its_code(error: type[turnabout.TurnaboutError]) -> None:
    code, retryable, *_ = rows("errors")[error.__name__]
    assert code == f"`{error.code}`"
    assert retryable == ("yes" if error.retryable else "no")


@each("outcome", classes(outcomes))
def test_every_outcome_is_listed_with_its_fields(outcome: type[Any]) -> None:
    has, *_ = rows("errors")[outcome.__name__]
    assert {*outcome.__struct_fields__} <= set(re.findall(r"`(\w+)`", has))


@each("module", [limits, policy])
def test_every_limit_is_listed_with_its_value(module: ModuleType) -> None:
    told = re.findall(r"\| `([A-Z_]+)` \| (-?[\d,]+) \|", page("limits"))
    listed = {name: int(number.replace(",", "")) for name, number in told}
    there = {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, int | float)
    }
    assert there
    assert {name: listed.get(name) for name in there} == there


def test_every_setting_is_listed_with_its_default() -> None:
    listed = rows("queue")
    for setting in fields(QueueSettings):
        default = getattr(QueueSettings(), setting.name)
        told = listed[setting.name][0].strip("`")
        if isinstance(default, Policy):
            assert told == "Policy()"
        elif isinstance(default, bool | str) or default is None:
            assert told == str(default), setting.name
        else:
            assert float(told) == default, setting.name


def test_every_limit_of_a_policy_is_listed() -> None:
    assert {*Policy.__struct_fields__} <= set(rows("policy"))


@each("function", [Worker, Worker.handler])
def test_every_option_of_a_worker_is_listed(function: Any) -> None:
    listed = rows("worker")
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        told = listed[name][0].strip("`")
        if parameter.default is not parameter.empty:
            number = isinstance(parameter.default, float)
            assert told == (f"{parameter.default:g}" if number else str(parameter.default)), name


def test_what_a_worker_counts_is_told() -> None:
    assert all(f"`{f.name}`" in page("worker") for f in dataclasses.fields(WorkerStats))


@each("options", [Place, PostgresOptions])
def test_every_option_of_a_url_is_listed(options: type[Any]) -> None:
    own = [f for f in dataclasses.fields(options) if f.default is not dataclasses.MISSING]
    text = page("operations")
    for option in own:
        default: Any = option.default
        if isinstance(default, bool):
            default = "on" if default else "off"
        told = f"{default:g}" if isinstance(default, float) else str(default)
        assert re.search(rf"^\| `{option.name}` \| `?{told}`? \|", text, re.MULTILINE), option.name


@each(
    "thing",
    [
        turnabout.Turnabout,
        turnabout.Queue,
        turnabout.Channel,
        turnabout.Message,
        turnabout.Schedules,
    ],
)
def test_every_method_is_told_somewhere(thing: type[Any]) -> None:
    pages = [p for p in DOCS.rglob("*.md") if "design" not in p.parts and p.name != "cli.md"]
    text = "\n".join(p.read_text(encoding="utf-8") for p in pages)
    public = [n for part in thing.__mro__[:-1] for n in vars(part) if not n.startswith("_")]
    missing = [name for name in public if not re.search(rf"[.`]{name}\b", text)]
    assert set(missing) <= {"store"}, "`store` is for doors and tools that speak in verbs"


USED = re.compile(r"(?<![\w.])(mq|queue|channel\((?:n|name)\)|message|worker)\.(?!md\b)(\w+)")
USERS_PAGES = [
    page for page in DOCS.rglob("*.md") if "design" not in page.parts and page.name != "cli.md"
]


@pytest.fixture(scope="module")
def handles() -> Iterator[dict[str, list[Any]]]:
    """What the pages call by these names."""
    with turnabout.connect("sqlite://") as mq:
        queue = mq.queue("jobs")
        queue.send("a")
        channel = queue.channel("a")
        yield {
            "mq": [mq],
            "queue": [queue],
            "channel(n)": [channel],
            "channel(name)": [channel],
            "message": [queue.receive()[0], WorkerMessage],
            "worker": [Worker("sqlite://")],
        }


@each("page", USERS_PAGES)
def test_what_is_named_in_a_sentence_exists(page: Path, handles: dict[str, list[Any]]) -> None:
    """Blocks of code run; what stands in backticks in a text or in a column *ours* must exist."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    if page.parent.name == "coming-from":  # the first column is theirs
        text = re.sub(r"^\|.*?[^\\] \| ", "", text, flags=re.MULTILINE)
    for code in re.findall(r"`([^`]+)`", text):
        for handle, name in USED.findall(code):
            assert any(hasattr(thing, name) for thing in handles[handle]), code
        if told := re.match(r"turnabout((?: [a-z]+)+)", code):
            group: click.Command = main
            for word in told[1].split():
                if not isinstance(group, click.Group):
                    break
                found = group.get_command(click.Context(group), word)
                assert found is not None, code
                group = found


def commands(group: click.Group, path: str) -> list[str]:
    found = []
    for name, command in group.commands.items():
        found.append(f"{path} {name}")
        if isinstance(command, click.Group):
            found += commands(command, f"{path} {name}")
    return found


@each("command", commands(main, "turnabout"))
def test_every_command_has_a_section(command: str) -> None:
    assert f"\n## {command}\n" in page("cli")


def test_the_page_of_commands_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "docs_cli.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def checks_of_doctor() -> set[str]:
    """The names of all findings, read from the source."""
    makers = {"ok", "warn", "fail", "judged", "of_zero", "_guarded"}
    names = {"fsync", "full_page_writes", "synchronous_commit", "disk", *PROMISES, *OF_SLICES}
    package = Path(turnabout.__file__).parent
    files = [package / folder / "doctor.py" for folder in ("cli", "sqlite", "postgres")]
    for file in [*files, package / "words" / "findings.py"]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                first = node.args[0] if node.args else None
                if node.func.id in makers and isinstance(first, ast.Constant):
                    names.add(str(first.value))
    return names


def test_everything_that_doctor_looks_at_is_told() -> None:
    checks = checks_of_doctor()
    assert len(checks) > 20
    assert checks <= set(rows("operations"))


def test_each_promise_has_its_check_or_a_reason() -> None:
    told = re.findall(r"^\| P(\d+) \| (.*?) \| (.*?) ?\|$", page("operations"), re.MULTILINE)
    assert [number for number, _, _ in told] == [str(number) for number in range(1, 19)]
    by = {number: set(re.findall(r"`([^`]+)`", checks)) for number, checks, _ in told}
    assert set().union(*by.values()) <= checks_of_doctor()
    assert all(by[number] or why for number, _, why in told)
    for name, question in {**PROMISES, **OF_SLICES}.items():
        for number in re.findall(r"\(P(\d+)\)", question.bad):
            assert name in by[number], f"{name}: P{number}"


@each("folder", [".", "coming-from", "explanation", "how-to", "reference"])
def test_every_page_is_in_an_index(folder: str) -> None:
    """For readers on GitHub; the page for the package index is for nobody who has the others."""
    index = DOCS / ("how-to" if folder == "how-to" else ".") / "index.md"
    pages = {p.relative_to(index.parent).as_posix() for p in (DOCS / folder).glob("*.md")}
    linked = set(re.findall(r"\(([\w./-]+)\)", index.read_text(encoding="utf-8")))
    assert pages - linked <= {"index.md", "package.md"}


NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@each("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design/testing.md"])
def test_tests_that_are_named_exist(page: str) -> None:
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert named
    for file, test in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in source, f"{file}::{test}"


def test_every_promise_has_its_row() -> None:
    rows = re.findall(r"^\| P(\d+) \|.* \| (.+) \| .+ \|$", page("design/testing"), re.MULTILINE)
    assert [number for number, _ in rows] == [str(number) for number in range(1, 19)]
    assert all(re.search(r"chaos|`tests/", kept) for _, kept in rows)


def test_a_promise_of_each_door_is_kept_by_a_driving_test() -> None:
    for kept, doors in re.findall(
        r"^\| P\d+ \|.* \| (.+) \| (.+) \|$", page("design/testing"), re.MULTILINE
    ):
        if doors != "each door":
            continue
        for file, test in NAMED.findall(kept):
            source = (ROOT / file).read_text(encoding="utf-8")
            above = source[: source.index(f"def {test}(")].rpartition("\n\n\n")[2]
            assert "@pytest.mark.driving" in above, f"{file}::{test}"


def test_exactly_once_is_said_of_effects_only() -> None:
    """P18: on the pages of users, the README excepted, which explains the words."""
    said = {
        page.relative_to(ROOT).as_posix(): [
            sentence
            for sentence in re.split(r"[.!?](?:\s|$)", page.read_text(encoding="utf-8"))
            if re.search(r"exactly[\s*-]+once", sentence, re.IGNORECASE)
        ]
        for page in [ROOT / "README.md", *DOCS.rglob("*.md")]
        if "design" not in page.parts
    }
    assert len(said.pop("README.md")) == 1
    assert any(said.values())
    assert [s for all_of in said.values() for s in all_of if "effect" not in s] == []


def test_every_room_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    picture = set(re.findall(r"\w+", text[text.index("```text") : text.index("## Find it")]))
    rooms = {p.stem for p in (ROOT / "src" / "turnabout").iterdir()}
    assert rooms - picture - {"__init__", "__main__", "__pycache__", "py"} == set()


def test_what_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    there = [
        f"/{p.relative_to(ROOT)}/" for part in ("src", "tests") for p in (ROOT / part).rglob("*")
    ]
    named = re.findall(r"`([\w/]+(?:\.py|\.sql|/))`", text)
    assert len(named) > 20
    assert [n for n in named if not any(p.endswith(f"/{n.rstrip('/')}/") for p in there)] == []


def text_of_tasks() -> str:
    return (DOCS / "performance.md").read_text(encoding="utf-8").split("`--cell tasks`")[1]


def test_the_readme_is_short_and_its_figures_are_measured() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 900
    jobs = (DOCS / "performance.md").read_text(encoding="utf-8").split("`--cell jobs`")[1]
    rows = re.findall(r"^[|] batch (?:1|100), 1 process .*$", jobs, re.MULTILINE)[:2]
    tasks = re.search(r"^[|] concurrency 1, 1 process .*$", text_of_tasks(), re.MULTILINE)
    assert tasks is not None
    measured = set(re.findall(r"\b[\d,]+\b", "".join([*rows, tasks[0]])))
    said = re.search(r"With default settings.*?Sending", text, re.DOTALL)
    assert said is not None
    figures = re.findall(r"(?<!PostgreSQL )\b\d[\d,]{2,}\b", said[0])
    assert len(figures) == 12
    assert set(figures) <= measured
    drawn = (DOCS / "pictures" / "fairness.svg").read_text(encoding="utf-8")
    for figure in re.findall(r"\d+ of [\d,]+ deliveries", text):
        some, of_all = figure.split()[0], figure.split()[2]
        assert f"after {some} deliveries" in drawn, figure
        assert f"queue of {of_all} flights" in drawn, figure
