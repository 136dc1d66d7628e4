"""A server with the SQS API, and boto3 in front of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

import turnabout
from tests.support.served import WIDE, served
from turnabout.server.verbs import TokenCreate, new_token, scopes, signing_secret, token_text


@dataclass
class Service:
    """The server's address, its database, and clients by what their tokens may do."""

    url: str
    mq: Any

    def keys(self, *allowed: str, namespace: str = "") -> dict[str, str]:
        """The keys of a new token."""
        id_, secret, digest = new_token()
        self.mq.store.run(TokenCreate(id_, digest, namespace, "", scopes(allowed)))
        self.bearer = token_text(id_, secret)
        return {"aws_access_key_id": id_, "aws_secret_access_key": signing_secret(digest)}

    def client(self, *allowed: str, path: str = "/sqs", **more: Any) -> Any:
        keys = self.keys(*(allowed or ("operate", "sign")), **more)
        return client_of(self.url + path, **keys)


def client_of(url: str, **keys: str) -> Any:
    config = Config(retries={"max_attempts": 0})
    return boto3.client("sqs", endpoint_url=url, region_name="eu-west-1", config=config, **keys)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def service(request: Any, tmp_path: Any, migrated_url: str) -> Iterator[Service]:
    url = migrated_url if request.param == "postgres" else f"sqlite:///{tmp_path}/app.db"
    options = replace(WIDE, auth="tokens", sqs_root=True)
    with turnabout.connect(url) as mq, served(url, options=options) as server:
        yield Service(server.url, mq)


@pytest.fixture
def sqs(service: Service) -> Any:
    return service.client()


@pytest.fixture
def refused() -> Callable[..., str]:
    """The code of the error that a call ends with, and a word of its text."""

    def call(what: Callable[..., Any], code: str, word: str = "", **fields: Any) -> str:
        with pytest.raises(ClientError) as caught:
            what(**fields)
        error = caught.value.response["Error"]
        assert error["Code"] == code, error
        assert word in error["Message"], error
        return error["Message"]

    return call
