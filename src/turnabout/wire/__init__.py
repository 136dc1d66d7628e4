"""The wire: verbs and answers as JSON, where each verb is found, errors as statuses.

Knows the words and nothing of HTTP libraries: the server and the client speak through it.
"""

from turnabout.wire.answers import (
    answer_pieces,
    dump_answer,
    dump_value,
    listed,
    load_answer,
    load_part,
    load_transaction_answer,
    transaction_pieces,
)
from turnabout.wire.codec import (
    TRANSACTION_VERBS_MAX,
    Request,
    VerbItem,
    dump_transaction,
    dump_verb,
    load_call,
    load_fields,
    load_query,
    load_transaction,
    load_verb,
    request_of,
)
from turnabout.wire.errors import error_body, load_error, plain_error, retry_after
from turnabout.wire.objects import load_object, object_of
from turnabout.wire.routes import ROUTE_OF, ROUTES, Route, status_of

__all__ = [
    "ROUTES",
    "ROUTE_OF",
    "TRANSACTION_VERBS_MAX",
    "Request",
    "Route",
    "VerbItem",
    "answer_pieces",
    "dump_answer",
    "dump_transaction",
    "dump_value",
    "dump_verb",
    "error_body",
    "listed",
    "load_answer",
    "load_call",
    "load_error",
    "load_fields",
    "load_object",
    "load_part",
    "load_query",
    "load_transaction",
    "load_transaction_answer",
    "load_verb",
    "object_of",
    "plain_error",
    "request_of",
    "retry_after",
    "status_of",
    "transaction_pieces",
]
