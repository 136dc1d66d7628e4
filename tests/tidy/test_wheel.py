"""The wheel: all files, a description that needs no clone, and a package that runs on its own."""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

import turnabout
from tests.tidy.test_tree import ROOT, tracked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (file for file in archive.namelist() if file.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(path).decode())


def test_it_carries_every_file_of_the_source_folder(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = set(archive.namelist())
    src = ROOT / "src"
    wanted = {p.relative_to(src).as_posix() for p in tracked() if p.is_relative_to(src)}
    packages = ("turnabout/", "pyspark_turnabout/")
    assert {file for file in wanted if file.startswith(packages)} - carried == set()
    assert {"turnabout/py.typed", "pyspark_turnabout/__init__.py"} <= carried


def test_its_description_needs_no_clone(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert text.startswith("# Turnabout\n")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "dev.py" not in text
    assert "pip install" not in text, "there is no release, and a bare name is somebody else's"
    assert re.findall(r"\]\((?!https://)", text) == [], "a relative link leads nowhere"
    extras = set(metadata.get_all("Provides-Extra", []))
    named = set(
        re.findall(r"`([a-z-]+)`", text[text.index("The extras are") :].partition("\n\n")[0])
    )
    assert named <= extras


def test_it_says_whose_it_is_and_what_is_tested(metadata: Message) -> None:
    assert metadata["Author"] == "Turnabout maintainers"
    assert metadata["Keywords"]
    assert metadata.get_all("Project-URL") is None, "there are none yet"
    classifiers = metadata.get_all("Classifier", [])
    versions = [line.rpartition(" ")[2] for line in classifiers if re.search(r"3[.]\d+$", line)]
    dev = (ROOT / "dev.py").read_text()
    assert f"Python {versions[0]} to {versions[-1]} on Linux" in dev
    assert metadata["Requires-Python"] == f">={versions[0]}"
    systems = [line for line in classifiers if line.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]


def test_its_bill_of_materials_names_what_it_may_need(wheel: Path, metadata: Message) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (file for file in archive.namelist() if ".dist-info/sboms/" in file)
        bill = json.loads(archive.read(path))
    assert path.endswith("/turnabout.cdx.json")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/turnabout@{turnabout.__version__}"
    required: dict[str, bool] = {}
    for line in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(line)
        of_an_extra = requirement.marker is not None and "extra" in str(requirement.marker)
        required[requirement.name] = required.get(requirement.name, False) or not of_an_extra
    named = {part["name"]: part["scope"] == "required" for part in bill["components"]}
    assert named == required
    lock = (ROOT / "requirements-dev.lock").read_text()
    for part in bill["components"]:
        assert f"\n{part['name']}=={part['version']} " in lock, "the version that is tested"
    refs = [part["bom-ref"] for part in bill["components"]]
    assert bill["dependencies"][0]["dependsOn"] == refs


@pytest.mark.slow
def test_it_runs_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False)
    python = tmp_path / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    install = [uv, "pip", "install", "--python", python, "--offline", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    # What it needs is ours; itself is not, as a path in a `.pth` file reads no further ones.
    ours = Path(pytest.__file__).parents[1]
    (site / "needs.pth").write_text(f"{ours}\n")

    # A Spark session of an earlier test leaves the sources on the path of what this process starts.
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def output(*words: str | Path) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env=bare, check=True, capture_output=True, text=True
        )
        return done.stdout

    where = output(python, "-c", "import turnabout; print(turnabout.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    command = tmp_path / "bin" / "turnabout"
    assert output(command, "--help") == output(python, "-m", "turnabout", "--help")
    assert turnabout.__version__ in output(command, "--version")
    send = [command, "send", "emails", "hello", "--url", f"sqlite:///{tmp_path}/app.db"]
    assert "Sent" in output(*send)
