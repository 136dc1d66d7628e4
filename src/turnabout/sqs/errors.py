"""Errors as SQS's clients know them: a name in JSON, a code in the older query protocol, a text."""

from __future__ import annotations

import logging

from turnabout.words import errors as e

_SQS = "AWS.SimpleQueueService."
_PREFIXED = frozenset({
    "BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidBatchEntryId",
    "MessageNotInflight", "TooManyEntriesInBatchRequest", "UnsupportedOperation",
})  # fmt: skip
_OTHERS = {
    "InvalidParameterValueException": "InvalidParameterValue",
    "MissingRequiredParameterException": "MissingParameter",
    "QueueDoesNotExist": f"{_SQS}NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    "AccessDeniedException": "AccessDenied",
}
"""Codes that are not the name, with or without the service's prefix."""

log = logging.getLogger("turnabout.server")


class SqsError(Exception):
    """Ends a request, or an entry of a batch, with an error of SQS's."""

    def __init__(self, name: str, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.name = name
        self.text = text
        self.status = status

    @property
    def code(self) -> str:
        """The code of the query protocol, which SDKs show."""
        return _SQS + self.name if self.name in _PREFIXED else _OTHERS.get(self.name, self.name)

    @property
    def fault(self) -> str:
        """The end whose fault it is: the sender, or the receiver, which may do better later."""
        return "Receiver" if self.status >= 500 else "Sender"


def wrong(text: str) -> SqsError:
    """An error for a parameter, in words of its own."""
    return SqsError("InvalidParameterValueException", text)


def invalid(name: str, value: object, reason: str) -> SqsError:
    """An error for a parameter's value."""
    return wrong(f"Value {str(value)[:200]} for parameter {name} is invalid. Reason: {reason}")


def missing(name: str) -> SqsError:
    """An error for a parameter that has to be there."""
    text = f"The request must contain the parameter {name}."
    return SqsError("MissingRequiredParameterException", text)


def no_queue() -> SqsError:
    """The error for a queue that is not there."""
    return SqsError("QueueDoesNotExist", "The specified queue does not exist.")


def bad_receipt(value: object, reason: str = "The receipt handle is not valid.") -> SqsError:
    """The error for a receipt handle that is none."""
    text = f'The input receipt handle "{str(value)[:200]}" is not a valid receipt handle. {reason}'
    return SqsError("ReceiptHandleIsInvalid", text)


def meaning(error: e.TurnaboutError) -> SqsError:
    """The error of SQS's for one of ours. Such as tell a client to repeat have the status 503."""
    match error:
        case e.QueueNotFound():
            return no_queue()
        case e.Unauthorized():
            return SqsError("InvalidClientTokenId", str(error), 403)
        case e.Forbidden():
            return SqsError("AccessDeniedException", str(error), 403)
        case e.QuotaExceeded():
            return SqsError("OverLimit", str(error), 403)
        case e.UsageError():
            return wrong(str(error))
        case e.TooManyRequests() | e.Busy():
            return SqsError("RequestThrottled", str(error), 503)
        case e.Unavailable() | e.Uncertain():
            return SqsError("ServiceUnavailable", "The server cannot do that now.", 503)
        case _:
            log.error("a request failed", exc_info=error)
            return SqsError("InternalError", "An error of the server's: its log has it.", 500)
