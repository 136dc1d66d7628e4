"""The page about Django tells the truth: its files make a project, and its commands run in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import FILE, agrees, blocks
from tests.support.nursery import ROOT

SETTINGS = """
SECRET_KEY = "x"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "app.db"}}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_tasks", "shop"]
"""
MODELS = """
from django.db import models

class Order(models.Model):
    customer = models.TextField()
    state = models.TextField(default="new")
"""
BUY = """
import json
from shop.views import buy, state
task = json.loads(buy(None, "acme").content)["task"]
"""
SEE = BUY.replace("task = ", "if 0: ") + "print(state(None, 'emails:1').content.decode())"


@pytest.mark.slow
def test_its_project_runs(tmp_path: Path) -> None:
    found = blocks((ROOT / "docs" / "django.md").read_text(encoding="utf-8"))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "models.py").write_text(MODELS)
    for block in found:
        if file := FILE.match(block.text):
            before = SETTINGS if file[1] == "settings.py" else ""
            (tmp_path / file[1]).write_text(before + block.text)
    (commands,) = [block for block in found if block.language == "console"]
    told = ""
    for line in commands.text.splitlines():
        *_, command = line.partition("manage.py ")
        if "worker" in command:
            manage(tmp_path, "shell", "-c", BUY)
        told = manage(tmp_path, *command.split(), *(["--run-syncdb"] * (command == "migrate")))
    assert commands.output is not None
    assert agrees(told, commands.output), told
    assert manage(tmp_path, "shell", "-v0", "-c", SEE) == (
        '{"state": "SUCCESSFUL", "value": "order 1 of acme"}\n'
    )


def manage(folder: Path, *words: str) -> str:
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)]),
    }
    command = [sys.executable, "-m", "django", *words]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=env, cwd=folder, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
