"""A workload that does what careless ones do: it raises errors that quote what they were given."""

import msgspec


class Word(msgspec.Struct, frozen=True):
    """A transaction."""

    account: str
    error: str


class Quoting:
    """Raises an error of the wanted kind, with the transaction in its words."""

    name, transaction, partial, sums = "quoting", Word, int, ()

    def map(self, word, _number):
        """Fail."""
        kind = {"unknown": ValueError, "transient": ConnectionError}[word.error]
        raise kind(f"cannot bill {word.account}")

    def combine(self, mapped):
        """Count."""
        return len(mapped)

    def merge(self, left, right):
        """Add."""
        return left + right

    def finish(self, _partial):
        """Yield nothing."""
        return ()
