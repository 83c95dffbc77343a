"""All gates at a glance, with those that hold work although nobody ever opened them: perhaps a name is misspelt."""

from dataclasses import dataclass

from azure.storage.blob import ContainerClient

from shared.answers import expecting_an_answer
from shared.gate.gates import Gates
from shared.gate.held import HeldSummary, HeldTable
from shared.gate.state import GateState, is_name


@dataclass(frozen=True, slots=True)
class Overview:
    """One gate and what waits behind it."""

    gate: str
    state: GateState
    held: HeldSummary

    @property
    def holds_in_silence(self) -> bool:
        """Whether work waits behind it, nobody ever opened it, and nobody has planned to."""
        return bool(self.held.count) and self.state.epoch == 0 and self.state.scheduled is None


def overview(container: ContainerClient, gates: Gates, held: HeldTable) -> list[Overview]:
    """Return every gate that has a blob or holds something, by name."""
    with expecting_an_answer("list the gates"):
        known = {name for name in container.list_blob_names() if is_name(name)}
    holding = set(filter(is_name, held.gates()))
    return [
        Overview(name, gates.read(name), held.summary(name) if name in holding else HeldSummary(0, None))
        for name in sorted(known | holding)
    ]
