"""Options: what is known, what is meant, and that no error shows a secret."""

import pickle
from pathlib import Path

import pytest

from tests.support.each import each
from turnabout.pipeline.spark import options as opt
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.options import Options, options_of
from turnabout.words.errors import UsageError

SECRET = "postgresql://app:hunter2@nowhere.invalid/app"


def given(role: str = "log", **options: str) -> Options:
    return Options(options, options_of(role))


def test_names_in_any_case_and_defaults() -> None:
    options = given("lease", SUBSCRIBE=" a, b ,a", leaseseconds="2m", preserveKeyOrder="TRUE")
    assert options.names("subscribe") == ("a", "b")
    assert options.seconds("leaseSeconds", 1, 1000) == 120
    assert options.flag("preserveKeyOrder") is True
    assert options.whole("maxOffsetsPerTrigger", 1, 10**6) == 20_000
    assert options.text("url") == "env:TURNABOUT_URL"
    assert list(options) == ["subscribe", "leaseSeconds", "preserveKeyOrder"]


@each(
    ("role", "options", "said"),
    [
        ("log", {"subscibe": "x"}, "did you mean subscribe"),
        ("log", {"zzz": "x"}, "there are url, namespace"),
        ("log", {"leaseSeconds": "3"}, "leaseSeconds is an option of mode=lease"),
        ("lease", {"checkpointLocation": "x"}, "there is no option 'checkpointLocation'"),
        ("sink", {"asyncProgressTrackingEnabled": "true"}, "cannot be used"),
        ("sink", {"subscribe": "x"}, "option of mode=lease"),
    ],
)
def test_what_is_not_known(role: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        given(role, **options)


def test_spark_s_own_options_reach_the_sink() -> None:
    options = given(
        "sink", checkpointLocation="x", queryName="q", asyncProgressTrackingEnabled="false"
    )
    assert list(options) == []


@each(
    ("name", "text", "said"),
    [
        ("maxOffsetsPerTrigger", "many", "whole number, not 'many'"),
        ("maxOffsetsPerTrigger", "0", "1 to 9"),
        ("failOnDataLoss", "yes", "one of true, false"),
        ("maxTriggerDelay", "soon", "ms, s, m, h, d"),
        ("startingTimestamp", "yesterday", "an instant such as 2026"),
        ("subscribePattern", "(", "not a regular expression"),
        ("subscribe", " , ", "names no queue"),
    ],
)
def test_what_cannot_be_meant(name: str, text: str, said: str) -> None:
    options = given(**{name: text})
    with pytest.raises(UsageError, match=said):
        {
            "maxOffsetsPerTrigger": lambda: options.whole(name, 1, 9),
            "failOnDataLoss": lambda: options.flag(name),
            "maxTriggerDelay": lambda: options.seconds(name, 0, 9),
            "startingTimestamp": lambda: options.instant(name),
            "subscribePattern": lambda: options.pattern(name),
            "subscribe": lambda: options.names(name),
        }[name]()


def test_instants() -> None:
    for text in (
        "1795305600000",
        "2026-11-22",
        "2026-11-22T00:00:00Z",
        "2026-11-22T01:00:00+01:00",
    ):
        assert given(startingTimestamp=text).instant("startingTimestamp") == 1_795_305_600_000


def test_a_page_tells_of_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark-options.md").read_text(encoding="utf-8")
    for option in opt.OPTIONS:
        assert f"`{option.name}`" in page, option.name
        if option.default is not None:
            row = next(line for line in page.splitlines() if f"`{option.name}`" in line)
            assert f"`{option.default}`" in row, option.name


def test_secrets_are_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    options = given(url=SECRET, token="tbt_secret")
    assert "hunter2" not in repr(options)
    assert "tbt_secret" not in repr(options)
    access = Access.of(options)
    assert "hunter2" not in repr(access)
    shown = SECRET.replace("hunter2", "…")
    assert access.hidden(f"cannot reach {SECRET} with hunter2") == f"cannot reach {shown} with …"
    monkeypatch.setenv("SOME_URL", SECRET + " nonsense")
    late = Access.of(given(url="env:SOME_URL"))
    assert b"hunter2" not in pickle.dumps(late)
    with pytest.raises(UsageError) as caught:
        late.place()
    assert "hunter2" not in str(caught.value)


def test_the_environment_is_read_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    access = Access.of(given())
    with pytest.raises(UsageError, match="has no 'TURNABOUT_URL' in this process"):
        access.place()
    monkeypatch.setenv("TURNABOUT_URL", "postgresql://app@db/app")
    assert access.place() == ("postgresql", "postgresql://app@db/app")


def test_a_relative_file_is_where_the_driver_stands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNABOUT_URL", "sqlite:///a b.db?synchronous=off")
    both = [Access("sqlite:///a b.db?synchronous=off"), Access("env:TURNABOUT_URL")]
    monkeypatch.chdir("/")
    monkeypatch.delenv("TURNABOUT_URL")
    for access in both:
        assert access.place() == ("sqlite", str(tmp_path / "a b.db"))


@each("url", ["http://localhost:1", "sqlite://", "mysql://x"])
def test_what_is_no_database_for_a_pipeline(url: str) -> None:
    with pytest.raises(UsageError):
        Access(url).place()
