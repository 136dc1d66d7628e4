"""Golden transcripts: what was said and what was answered, in a file a person can read.

    # A line that tells what the next ones are about.
    @ advance 31            the clock goes on by so many seconds
    > POST /queues?name=a   a request; more such lines are its headers (`Name: value`) and its body
    < 200 text/plain        its answer: status and content type, headers of ours, the body

Ids of messages are written `<id 1>`, in the order in which they come up, and stand for the real
ones in requests. Times need no such thing: the clock is the test's.

`python -m tests.compat.transcript` writes all answers anew; read what has changed.
"""

import http.client
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.doors import Clock
from tests.support.served import served

FOLDER = Path(__file__).parent / "transcripts"
TOLD = ("allow", "location", "turnabout-cut", "turnabout-error", "turnabout-fence", "retry-after")
ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\b[0-9a-f]{24}\b")
HEADER = re.compile(r"([A-Z][A-Za-z-]*): (.*)")


@dataclass
class Player:
    """Speaks to a server as a transcript says, and writes down what it answers."""

    url: str
    clock: Clock
    ids: list[str] = field(default_factory=list[str])

    def play(self, script: str) -> str:
        """The transcript with the answers that came."""
        told: list[str] = []
        asked: list[str] = []
        for line in [*script.splitlines(), ""]:
            if line.startswith("> "):
                asked.append(line[2:])
                told.append(line)
            elif asked:
                told += [f"< {part}" for part in self._ask(asked)]
                asked = []
                if not line.startswith("<"):
                    told.append(line)
            elif not line.startswith("<"):
                told.append(line)
            if line.startswith("@ advance "):
                self.clock.advance(float(line.removeprefix("@ advance ")))
        return "\n".join(told).rstrip("\n") + "\n"

    def _ask(self, lines: list[str]) -> list[str]:
        first, *rest = [self._with_ids(line) for line in lines]
        method, path = first.split(" ", 1)
        headers: dict[str, str] = {}
        while rest and (match := HEADER.fullmatch(rest[0])):
            headers[match[1]] = match[2]
            rest.pop(0)
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
        try:
            connection.request(method, path, "\n".join(rest).encode() if rest else None, headers)
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        kind = answer.getheader("content-type", "").removesuffix("; charset=utf-8")
        said = [f"{answer.status} {kind}".rstrip()]
        for name in TOLD:
            if value := answer.getheader(name):
                # The methods of a path are in no order.
                parts = sorted(value.split(", ")) if name == "allow" else [value]
                said.append(f"{name}: {', '.join(parts)}")
        return said + ([self._without_ids(body)] if body else [])

    def _with_ids(self, text: str) -> str:
        return re.sub(r"<id (\d+)>", lambda match: self.ids[int(match[1]) - 1], text)

    def _without_ids(self, text: str) -> str:
        def name(match: re.Match[str]) -> str:
            if match[0] not in self.ids:
                self.ids.append(match[0])
            return f"<id {self.ids.index(match[0]) + 1}>"

        return ID.sub(name, text)


def write_all() -> None:
    """Write the answers of a server on SQLite into all transcripts."""
    for path in sorted(FOLDER.glob("*.txt")):
        clock = Clock()
        with (
            tempfile.TemporaryDirectory() as folder,
            served(f"sqlite:///{folder}/app.db", clock=clock) as server,
        ):
            path.write_text(Player(server.url, clock).play(path.read_text()))


if __name__ == "__main__":
    write_all()
