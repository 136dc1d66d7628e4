"""Two small clients, written from what hq's and ToxMQ's own READMEs say and nothing else."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen


def _ask(method: str, url: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data else {}
    with urlopen(Request(url, data, headers, method=method), timeout=20) as answer:
        text = answer.read()
        return answer.status, json.loads(text) if text else None


class HqClient:
    """The methods of hq's Rust client; a status that is no success raises."""

    def __init__(self, url: str) -> None:
        self.url = url

    def create_queue(self, name: str, max_attempts: int, visibility_timeout_seconds: int) -> None:
        parameters = {
            "name": name,
            "max_attempts": max_attempts,
            "visibility_timeout_seconds": visibility_timeout_seconds,
        }
        _ask("POST", f"{self.url}/queues?{urlencode(parameters)}")

    def list_queues(self) -> list[dict[str, Any]]:
        return _ask("GET", f"{self.url}/queues")[1]

    def get_queue(self, name: str) -> dict[str, Any] | None:
        return _ask("GET", f"{self.url}/queues/{quote(name)}")[1]

    def update_queue(self, name: str, **parameters: int) -> None:
        _ask("PUT", f"{self.url}/queues/{quote(name)}?{urlencode(parameters)}")

    def delete_queue(self, name: str) -> None:
        _ask("DELETE", f"{self.url}/queues/{quote(name)}")

    def enqueue_message(self, queue: str, args: Any) -> str:
        return _ask("POST", f"{self.url}/queues/{quote(queue)}/enqueue", args)[1]["message_id"]

    def receive_message(self, queue: str) -> dict[str, Any] | None:
        return _ask("GET", f"{self.url}/queues/{quote(queue)}/receive")[1]

    def complete_message(self, message_id: str) -> None:
        _ask("PUT", f"{self.url}/messages/{message_id}/complete")

    def fail_message(self, message_id: str) -> None:
        _ask("PUT", f"{self.url}/messages/{message_id}/fail")


@dataclass
class ToxMqClient:
    """The actions of ToxMQ's README on one queue."""

    url: str
    queue: str

    def _do(self, method: str, action: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        given = {name: value for name, value in query.items() if value is not None}
        return _ask(method, f"{self.url}/queue/{self.queue}/{action}?{urlencode(given)}", body)

    def push(self, body: Any, hash_code: str | None = None, expires_in: int | None = None) -> bool:
        """Whether it was put in."""
        status, _ = self._do("POST", "push", body, hashCode=hash_code, expiresIn=expires_in)
        assert status in (201, 204)
        return status == 201

    def pop_one(self, expires_in: int | None = None) -> dict[str, Any] | None:
        return self._do("POST", "pop", expiresIn=expires_in)[1]

    def pop_many(self, amount: int, expires_in: int | None = None) -> list[dict[str, Any]]:
        return self._do("POST", f"pop/{amount}", expiresIn=expires_in)[1] or []

    def ack_many(self, ids: list[str]) -> None:
        assert self._do("POST", "ack", ids) == (204, None)

    def ping_many(self, ids: list[str], expires_in: int | None = None) -> None:
        assert self._do("POST", "ping", ids, expiresIn=expires_in)[0] == 200

    def size(self) -> int:
        return self._do("GET", "size")[1]["size"]


__all__ = ["HTTPError", "HqClient", "ToxMqClient"]
