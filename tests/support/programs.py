"""Programs in other languages, run to their end."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.docs.pages import ROOT


def run(*words: str, folder: Path = ROOT, env: Mapping[str, str] = MappingProxyType({})) -> str:
    """What a program prints; it must end well."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
