"""Reads every gate with the work behind it, by few requests: one lists the blobs, one counts the held entries.

The list has the ETag of each blob. A reader that is kept reads a gate's blob again only after it was changed.
"""

from dataclasses import dataclass, replace
from typing import Final

from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.errors import GateCorruptError, NewerVersionError
from shared.gate import Gates, GateState, HeldSummary, HeldTable, is_name

_NOTHING: Final = HeldSummary(0, None)


@dataclass(frozen=True, slots=True)
class Overview:
    """One gate and the work that it holds."""

    gate: str
    state: GateState
    held: HeldSummary
    #: The fault of its blob, or empty. A gate with a fault counts as closed; its state here is that of a new gate.
    problem: str = ""

    @property
    def holds_in_silence(self) -> bool:
        """Return whether it holds work, was never opened, and no opening is scheduled.

        Perhaps a submission misspells the name of its gate.
        """
        never_used = self.state.epoch == 0 and self.state.scheduled is None
        return bool(self.held.count) and never_used and not self.problem


class GateReader:
    """Reads all gates. It remembers the blobs that it has read."""

    def __init__(self, container: ContainerClient, gates: Gates, held: HeldTable) -> None:
        self._container, self._gates, self._held = container, gates, held
        self._known: dict[str, tuple[str, Overview]] = {}

    def read(self) -> list[Overview]:
        """Return every gate that has a blob or holds work, by name."""
        with expecting_an_answer("list the gates"):
            # The ETag is that of the list. A change between the list and the read is found by the next list.
            etags = {str(blob.name): str(blob.etag) for blob in self._container.list_blobs() if is_name(str(blob.name))}
        holding = {gate: summary for gate, summary in self._held.summaries().items() if is_name(gate)}
        return [
            replace(self._observe(name, etags.get(name, "")), held=holding.get(name, _NOTHING))
            for name in sorted({*etags, *holding})
        ]

    def _observe(self, name: str, etag: str) -> Overview:
        known = self._known.get(name)
        if known is None or known[0] != etag:
            known = self._known[name] = (etag, self._read_gate(name) if etag else Overview(name, GateState(), _NOTHING))
        return known[1]

    def _read_gate(self, name: str) -> Overview:
        try:
            return Overview(name, self._gates.read(name), _NOTHING)
        except (GateCorruptError, NewerVersionError) as error:
            # One broken gate must not hide the others.
            return Overview(name, GateState(), _NOTHING, str(error))
