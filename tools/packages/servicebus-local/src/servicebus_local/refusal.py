"""The broker's answer when it refuses a request: an AMQP condition and a sentence."""


class Refusal(Exception):  # noqa: N818 - a refusal is an answer that travels to the client, not a failure of the broker
    """Raised when a request cannot be granted. Carries the condition that the client maps to its own error."""

    def __init__(self, condition: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description
        self.status = status


NOT_FOUND = "amqp:not-found"
NOT_ALLOWED = "amqp:not-allowed"
NOT_IMPLEMENTED = "amqp:not-implemented"
DECODE_ERROR = "amqp:decode-error"
TOO_LARGE = "amqp:link:message-size-exceeded"
MESSAGE_LOCK_LOST = "com.microsoft:message-lock-lost"
SESSION_LOCK_LOST = "com.microsoft:session-lock-lost"
SESSION_TAKEN = "com.microsoft:session-cannot-be-locked"
MESSAGE_NOT_FOUND = "com.microsoft:message-not-found"
TIMEOUT = "com.microsoft:timeout"
ARGUMENT = "com.microsoft:argument-error"
UNAUTHORIZED = "amqp:unauthorized-access"
SERVER_BUSY = "com.microsoft:server-busy"
SESSION_NOT_FOUND = "com.microsoft:session-not-found"
ALREADY_EXISTS = "com.microsoft:entity-already-exists"


def not_implemented(what: str) -> Refusal:
    """Return the refusal of something that the real service does and this stand-in does not."""
    return Refusal(NOT_IMPLEMENTED, f"the local Service Bus stand-in does not do {what}", 501)
