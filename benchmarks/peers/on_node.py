"""The peers that run on Node: how their packages get here, and a client that hands jobs on.

Each client process of theirs is a Node process (`node/client.mjs`), which measures its own
processor time; ours only hands it the job and reads the tally.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.jobs import Tally
from benchmarks.on_postgres import PostgresBase
from benchmarks.peers import PACKAGES
from benchmarks.peers.peer import LeftOut, PeerJob, PostgresPeer

HERE = Path(__file__).parent / "node"
FOLDER = PACKAGES / "node"
STAMP = FOLDER / ".stamp"
NO_NODE = "there is no Node here: it needs `node` and `npm`, version 20 or later, on the PATH"


def install_packages() -> None:
    """Have what `node/package-lock.json` names, by npm; nothing where it is there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise LeftOut(NO_NODE)
    lock = (HERE / "package-lock.json").read_bytes()
    digest = hashlib.sha256(lock).hexdigest()
    if STAMP.exists() and STAMP.read_text() == digest:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, FOLDER / name)
    words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(words, cwd=FOLDER, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise LeftOut(f"npm could not fetch it: {done.stderr.strip()[-500:]}")
    STAMP.write_text(digest)


class Client:
    """A Node process. A line of JSON goes in, a line comes back."""

    def __init__(self, peer: str, url: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(HERE / "client.mjs"), str(FOLDER), peer, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **words: Any) -> Any:
        """Ask, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the Node process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def warm(self, job: PeerJob) -> None:
        """Connect; a few sends or receives."""
        self.ask(what="warm", **asdict(job))

    def run(self, job: PeerJob) -> Tally:
        """Do the job."""
        answer = self.ask(what="run", **asdict(job))
        return Tally(**answer)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class NodePeer(PostgresPeer):
    """A peer of `node/client.mjs`."""

    package: ClassVar[str]

    def check(self) -> None:
        """Fetch it, where there is Node."""
        install_packages()

    def version(self) -> str:
        """As it is locked, and Node's."""
        packages = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
        node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True)
        return f"{packages[f'node_modules/{self.package}']['version']} (Node {node.stdout.strip()})"

    def install(self, base: PostgresBase) -> None:
        """As the package does."""
        client = Client(self.package, base.url)
        try:
            client.ask(what="install")
        finally:
            client.close()

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(self.package, job.url)
