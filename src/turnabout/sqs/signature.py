"""Signatures of requests: AWS Signature Version 4, in the headers or in the address.

A client proves that it has a secret without showing it. Its key id is a token's; the secret is that
of `turnabout.server.verbs.signing_secret`, and the token needs the scope `sign:*`.
Source: docs.aws.amazon.com, *Create a signed AWS API request*.
"""

from __future__ import annotations

import hmac
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from urllib.parse import parse_qsl, quote

from starlette.requests import Request

from turnabout.sqs.errors import SqsError

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW_SECONDS = 900.0
"""A request's time may differ from ours by that much."""
EXPIRES_SECONDS_MAX = 7 * 86_400


@dataclass(frozen=True)
class Signature:
    """The signature of a request, as it was presented."""

    key_id: str
    day: str
    region: str
    service: str
    signed: tuple[str, ...]
    """Names of the headers that it covers."""
    value: str
    time: str
    lifetime: int | None = None
    """Seconds; None: of a request that is sent at once."""

    def check(self, request: Request, body: bytes, secret: str) -> None:
        """Check that the secret made it, for this request and now. Raises: SqsError."""
        self._check_time()
        scope = f"{self.day}/{self.region}/{self.service}/aws4_request"
        canonical = sha256(self._canonical(request, body).encode()).hexdigest()
        text = f"{ALGORITHM}\n{self.time}\n{scope}\n{canonical}"
        key = _signing_key(secret, self.day, self.region, self.service)
        made = hmac.digest(key, text.encode(), "sha256").hex()
        if not hmac.compare_digest(made.encode(), self.value.encode()):
            raise _mismatch("The signature does not match: check the secret access key.")

    def _check_time(self) -> None:
        try:
            at = datetime.strptime(self.time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        except ValueError as error:
            raise _mismatch("The request's date is not one such as 20260131T235959Z.") from error
        if not self.time.startswith(self.day):
            raise _mismatch("The credential's day is not that of the request.")
        early, late = at - SKEW_SECONDS, at + (self.lifetime or SKEW_SECONDS)
        if not early <= time.time() <= late:
            raise _mismatch("Signature expired: the request's time is too far from the server's.")

    def _canonical(self, request: Request, body: bytes) -> str:
        """The text that is signed, in its canonical form."""
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        query = parse_qsl(request.url.query, keep_blank_values=True)
        pairs = sorted(
            (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
            for name, value in query
            if name != "X-Amz-Signature"
        )
        headers = [
            f"{name}:{','.join(' '.join(one.split()) for one in request.headers.getlist(name))}\n"
            for name in self.signed
        ]
        return "\n".join([
            request.method,
            quote(raw.decode("latin-1").partition("?")[0], safe="/~"),
            "&".join(f"{name}={value}" for name, value in pairs),
            "".join(headers),
            ";".join(self.signed),
            sha256(body).hexdigest(),
        ])  # fmt: skip


def signature_of(request: Request) -> Signature | None:
    """The signature of a request; None: it has none. Raises: SqsError for one that is not whole."""
    header = request.headers.get("authorization", "")
    query = request.query_params
    if header.startswith(ALGORITHM):
        pairs = [one.strip().partition("=") for one in header[len(ALGORITHM) :].split(",")]
        parts = {name: value for name, _, value in pairs}
        fields = parts.get("Credential"), parts.get("SignedHeaders"), parts.get("Signature")
        when, lifetime = request.headers.get("x-amz-date"), None
    elif query.get("X-Amz-Algorithm") == ALGORITHM:
        names = ("X-Amz-Credential", "X-Amz-SignedHeaders", "X-Amz-Signature")
        fields = tuple(query.get(name) for name in names)
        when, lifetime = query.get("X-Amz-Date"), _lifetime(query.get("X-Amz-Expires", ""))
    else:
        return None
    credential, signed, value = fields
    scope = (credential or "").split("/")
    names = tuple((signed or "").split(";"))
    if len(scope) != 5 or scope[4] != "aws4_request" or not value or not when:
        raise SqsError("IncompleteSignature", "The signature has parts missing.", 403)
    if "host" not in names:
        raise SqsError("IncompleteSignature", "The signature has to cover the host.", 403)
    key_id, day, region, service, _ = scope
    return Signature(key_id, day, region, service, names, value, when, lifetime)


def _lifetime(text: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", text) or not 1 <= int(text) <= EXPIRES_SECONDS_MAX:
        raise _mismatch("X-Amz-Expires is 1 to 604800 seconds.")
    return int(text)


def _mismatch(text: str) -> SqsError:
    return SqsError("SignatureDoesNotMatch", text, 403)


@lru_cache(maxsize=1_024)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
