"""What users import: complete, the same in both colours, quick to load, and nobody else's code."""

import inspect
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import msgspec

import turnabout
import turnabout.aio
from tests.support.each import each
from turnabout.words import errors, outcomes

ROOT = Path(__file__).resolve().parent.parent
FACES = [
    (getattr(turnabout, name), getattr(turnabout.aio, name))
    for name in ("Turnabout", "Queue", "Channel", "Message", "Schedules", "JoinedQueue")
]


@each("module", [turnabout, turnabout.aio])
def test_all_is_sorted_and_complete(module):
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    ]
    assert list(module.__all__) == sorted(set(module.__all__))
    assert set(module.__all__) == set(names)


@each("module", [errors, outcomes])
def test_whatever_can_be_answered_or_raised_can_be_imported(module):
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            # What `receive` answers reaches users as a Batch; schedules are fired by the library.
            assert name in {*turnabout.__all__, "Received", "Fired", "NotDue"}, name


def test_everything_exported_is_explained():
    for name in turnabout.__all__:
        assert inspect.getdoc(getattr(turnabout, name)), name


def public(cls):
    names = [n for part in cls.__mro__[:-1] for n in vars(part) if not n.startswith("_")]
    return {name: inspect.getattr_static(cls, name) for name in names}


@each(("plain", "awaited"), FACES)
def test_both_faces_say_the_same(plain, awaited):
    assert list(public(plain)) == list(public(awaited))
    assert awaited.__name__ == f"Async{plain.__name__}"
    assert inspect.getdoc(plain) == inspect.getdoc(awaited)
    for name, theirs in public(awaited).items():
        ours = public(plain)[name]
        assert type(ours) is type(theirs), name
        assert inspect.getdoc(ours) == inspect.getdoc(theirs), name
        assert inspect.getdoc(theirs) or isinstance(theirs, types.MemberDescriptorType), name
        if inspect.isfunction(theirs):
            mine, other = inspect.signature(ours), inspect.signature(theirs)
            assert list(mine.parameters) == list(other.parameters), name
            for key in mine.parameters:
                assert mine.parameters[key].default == other.parameters[key].default, (name, key)
                assert mine.parameters[key].kind == other.parameters[key].kind, (name, key)
            assert not inspect.iscoroutinefunction(ours), name


def test_every_verb_of_the_asyncio_face_is_awaited():
    for _, awaited in FACES:
        for name, member in public(awaited).items():
            plain = name in {"queue", "channel", "text", "json", "within", "batch"}
            plain |= name in {"consume", "mark_settled"}
            if inspect.isfunction(member):
                awaits = inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
                assert awaits != plain, name


def test_the_blocking_face_is_fresh():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "unasync.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_exceptions_say_whether_to_repeat():
    for name, value in vars(errors).items():
        if inspect.isclass(value):
            assert issubclass(value, turnabout.TurnaboutError), name
            assert value.retryable == issubclass(value, turnabout.Unavailable)
    classes = [v for v in vars(errors).values() if inspect.isclass(v)]
    assert len({c.code for c in classes}) == len(classes), "a code stands for one class"


# --- loading ---


def alone(code, **environment):
    """What a fresh interpreter prints as JSON."""
    ours = [str(Path(package.__file__ or "").parent.parent) for package in (turnabout, msgspec)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(ours), **environment}
    for noise in ("COVERAGE_PROCESS_START", "PYTHONSTARTUP", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(noise, None)
    words = [sys.executable, "-S", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_importing_loads_msgspec_and_the_standard_library_only():
    code = (
        "import sys, json; before = set(sys.modules); import turnabout, turnabout.aio; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    foreign = {name.partition(".")[0] for name in alone(code)} - sys.stdlib_module_names
    assert foreign - {"typing_extensions"} == {
        "turnabout",
        "msgspec",
    }  # it takes that if it is there


def test_importing_loads_no_store():
    code = (
        "import sys, json; import turnabout; "
        "print(json.dumps([m for m in sys.modules if m.split('.')[-1] in "
        "('sqlite', 'postgres', 'sqlite3', 'asyncio', 'click', 'worker', 'cli')]))"
    )
    assert alone(code) == []


def test_importing_is_quick(tmp_path):
    """No longer than three modules of the standard library: processors differ, and what else runs
    here makes both slower. `dev.py bench --section import` says milliseconds: under 60.
    """
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path)}  # the first round compiles, the others read
    ours, theirs = 1e9, 1e9
    for _ in range(15):
        ours = min(ours, alone(import_time("turnabout"), **compiled))
        theirs = min(theirs, alone(import_time("asyncio, sqlite3, argparse"), **compiled))
        if ours < 1.4 * theirs:
            break
    assert ours < 1.4 * theirs, f"{ours} ms and {theirs} ms"


def import_time(modules):
    return (
        f"import time; t = time.process_time(); import {modules}; "
        "print(round(1000 * (time.process_time() - t), 1))"
    )


def test_the_version_is_said_once():
    assert f'version = "{turnabout.__version__}"' in (ROOT / "pyproject.toml").read_text()
