"""The rules in the container `settings`: one blob that is in force, and one that stays for each version that ever was."""

from dataclasses import dataclass
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import BlobStore, expecting_an_answer
from shared.concurrency.rules import Rules
from shared.concurrency.rules_text import lint, parse
from shared.errors import RulesRefusedError

#: The blob in force; the versions are below it.
NAME: Final = "rules"


@dataclass(frozen=True, slots=True)
class RulesText:
    """What stands in the blob."""

    text: str
    etag: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The blob is as it was."""


class RulesBlob:
    """The rules of one installation."""

    def __init__(self, container: ContainerClient) -> None:
        self._container, self._store = container, BlobStore(container, NAME)

    def look(self, etag: str | None) -> RulesText | Unchanged | None:
        """Return the text, None where there is none, or that it still has this ETag; one request."""
        condition: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfModified} if etag else {}
        with expecting_an_answer("read the rules of concurrency"):
            try:
                found = self._container.get_blob_client(NAME).download_blob(**condition)
                return RulesText(found.readall().decode(errors="replace"), str(found.properties.etag))
            except ResourceModifiedError:
                # What the library makes of 304, which says the opposite.
                return Unchanged()
            except ResourceNotFoundError:
                return None

    def put(self, text: str) -> Rules:
        """Put rules in force, whose version must be above that of those in force; the same ones again change nothing.

        The version is kept first, written by whoever is first with that number, so that the number says which text
        it was. What a lost reply leaves open, the text in force answers.
        """
        rules = parse(text)
        found = self._store.read()
        if found is not None and found.value == text.encode():
            return rules
        current = lint(found.value.decode(errors="replace")).rules if found else None
        if current is not None and rules.version <= current.version:
            raise RulesRefusedError(
                f"the rules in force have version {current.version}, these have {rules.version}: give them "
                f"version {current.version + 1}"
            )
        self._keep(rules.version, text)
        if self._store.try_write(text.encode(), found.etag if found else None) is None and self.text() != text:
            raise RulesRefusedError("somebody else put rules in force meanwhile: look at them, then try again")
        return rules

    def _keep(self, version: int, text: str) -> None:
        kept = self._store.beside(str(version))
        if kept.try_write(text.encode(), None) is None and self.text(version) != text:
            raise RulesRefusedError(f"there were other rules with version {version} before: give these a newer one")

    def text(self, version: int | None = None) -> str | None:
        """Return the text in force, or that of a version; None where there is none."""
        store = self._store if version is None else self._store.beside(str(version))
        found = store.read()
        return found.value.decode(errors="replace") if found else None
