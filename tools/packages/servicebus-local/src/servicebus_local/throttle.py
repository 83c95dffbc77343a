"""A limit on the operations of an entity in a second, for those who try what the service does above its own."""

from servicebus_local.refusal import SERVER_BUSY, Refusal


class Allowance:
    """How many operations an entity still takes in the current second. They do not add up over idle seconds."""

    def __init__(self, name: str, per_second: int) -> None:
        self._name = name
        self._per_second = per_second
        self._second = 0
        self._left = 0

    def take(self, now: float, count: int = 1) -> bool:
        """Count operations, or return false where the second has no more. The last ones may be more than it had."""
        second = int(now)
        if second != self._second:
            self._second, self._left = second, self._per_second
        if self._left <= 0:
            return False
        self._left -= count
        return True

    def demand(self, now: float, count: int = 1) -> None:
        """Count operations, or refuse them with the service's words."""
        if not self.take(now, count):
            raise Refusal(
                SERVER_BUSY,
                f"The request was terminated because the entity {self._name} is being throttled. "
                "Error code : 50009. Please wait 2 seconds and try again. "
                f"This stand-in was started with a limit of {self._per_second} operations a second for each entity.",
                503,
            )
