"""The rules in the container `settings`: one blob for the rules in force, and one for each version there ever was."""

from dataclasses import dataclass
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import BlobStore, expecting_an_answer
from shared.concurrency.rules import Rules
from shared.concurrency.rules_text import lint, parse
from shared.errors import ActStaleError, RulesRefusedError

#: The blob in force. The versions are below it.
NAME: Final = "rules"
#: In place of an ETag: an operator has put no rules, so the built-in ones apply.
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class RulesText:
    """The content of the blob."""

    text: str
    etag: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The answer that the blob still has the ETag of the request."""


class RulesBlob:
    """The rules of one installation."""

    def __init__(self, container: ContainerClient) -> None:
        self._container, self._store = container, BlobStore(container, NAME)

    def look(self, etag: str | None) -> RulesText | Unchanged | None:
        """Read the text in force, if it has another ETag. Return None without rules. Makes one request."""
        condition: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfModified} if etag else {}
        with expecting_an_answer("read the rules of concurrency"):
            try:
                found = self._container.get_blob_client(NAME).download_blob(**condition)
                return RulesText(found.readall().decode(errors="replace"), str(found.properties.etag))
            except ResourceModifiedError:
                # The library's name for 304, which means the opposite: not modified.
                return Unchanged()
            except ResourceNotFoundError:
                return None

    def put(self, text: str, seen: str | None = None) -> Rules:
        """Put rules in force. Their version must be higher than the current one, unless they are the same text.

        `seen`: only if the rules in force have this ETag, or NONE for the built-in ones, else raise ActStaleError.

        The version's own blob is written first, and only the first writer of a number succeeds. So a number stands for
        one text. After a lost reply, the text in force shows whether the write took effect.
        """
        rules = parse(text)
        found = self._store.read()
        if found is not None and found.value == text.encode():
            return rules
        if seen is not None and seen != (found.etag if found else NONE):
            raise ActStaleError("the rules in force were changed since you saw them: nothing was done")
        current = lint(found.value.decode(errors="replace")).rules if found else None
        if current is not None and rules.version <= current.version:
            raise RulesRefusedError(
                f"the rules have version {rules.version}, those in force have version {current.version}: give them "
                f"version {current.version + 1}"
            )
        self._keep(rules.version, text)
        if self._store.try_write(text.encode(), found.etag if found else None) is None and self.text() != text:
            raise RulesRefusedError(
                f"could not put rules of version {rules.version} in force: another operator changed the rules meanwhile; "
                "check them with `sluice tune show`, then retry"
            )
        return rules

    def _keep(self, version: int, text: str) -> None:
        kept = self._store.beside(str(version))
        if kept.try_write(text.encode(), None) is None and self.text(version) != text:
            raise RulesRefusedError(f"version {version} belongs to other rules: give these a higher version")

    def text(self, version: int | None = None) -> str | None:
        """Read the text in force, or that of a version. Return None if there is no such text."""
        store = self._store if version is None else self._store.beside(str(version))
        found = store.read()
        return found.value.decode(errors="replace") if found else None
