"""Write the lock files anew: `python3 dev.py lock` runs this."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from dev import LOCKS, PEERS_LOCK, SetupError, make_venv, pip, program, step

LOCK_HEADER = "# Made by `python3 dev.py lock` from pyproject.toml: names, versions and hashes.\n"


def main(more: list[str]) -> int:
    """All of them; what follows goes to `uv pip compile`."""
    uv = shutil.which("uv") or program("uv")
    if not Path(uv).exists():
        make_venv()
        step("Installing uv", [*pip(), "install", "uv"])
    # In this order: the demo takes its versions from what is tested.
    compile_lock(uv, LOCKS["dev"], ["--all-extras", "--group", "dev", *more, "pyproject.toml"])
    tested = ["-c", str(LOCKS["dev"])]
    few = [*tested, "--group", "build", "pyproject.toml"]
    shown = ["--group", "demo", "--extra", "server"]  # the dashboard
    compile_lock(uv, LOCKS["demo"], [*few, *shown])
    compile_lock(uv, LOCKS["pipeline"], [*few, *shown, "--extra", "spark-jre"])
    compile_lock(uv, LOCKS["docs"], [*few, "--group", "docs"])
    compile_lock(uv, PEERS_LOCK, [*tested, "--group", "peers", *more])
    return 0


def compile_lock(uv: str, target: Path, options: list[str]) -> None:
    """Write one lock file, for every platform and every Python that we support."""
    words = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"]
    words += ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate"]
    with tempfile.TemporaryDirectory() as folder:
        # uv keeps the versions that the old file names, unless it is told --upgrade.
        work = Path(folder) / target.name
        if target.exists():
            shutil.copy(target, work)
        step(f"Locking {target.name}", [*words, *options, "-o", str(work)])
        text = work.read_text().replace(LOCK_HEADER, "")
    found = re.search(r".*(://|@ ).*", text)
    if found:
        raise SetupError(f"The lock would name an address: {found[0].strip()}")
    target.write_text(LOCK_HEADER + text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
