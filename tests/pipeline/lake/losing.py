"""A proxy before an S3 that loses what it is told to lose: `python -m tests.pipeline.lake.losing
URL` prints its port. `PUT /_lose/2/1`: drop the next commit before it is done, and the answers to
the two after it. A program of its own, as delta-rs holds Python's lock while it waits for answers.
"""

import sys
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Losing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target = ""
    lose = fail = 0

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/_lose/"):
            Losing.lose, Losing.fail = map(int, self.path.split("/")[2:])
            self._answer(204, [], b"")
            return
        is_commit = self.command == "PUT" and "/_delta_log/" in self.path
        if is_commit and Losing.fail:
            Losing.fail -= 1
            self.close_connection = True
            return
        away = HTTPConnection(Losing.target, timeout=30)
        away.request(self.command, self.path, body, dict(self.headers))
        answer = away.getresponse()
        data = answer.read()
        away.close()
        if is_commit and Losing.lose:
            Losing.lose -= 1
            self.close_connection = True
            return
        size = answer.headers.get("Content-Length") or str(len(data))
        self._answer(answer.status, [*answer.getheaders(), ("Content-Length", size)], data)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        for name, value in dict(headers).items():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    Losing.target = urlsplit(sys.argv[1]).netloc
    with ThreadingHTTPServer(("127.0.0.1", 0), Losing) as server:
        print(server.server_port, flush=True)  # noqa: T201
        server.serve_forever()
