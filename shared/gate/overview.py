"""All gates at a glance, with those that hold work although nobody ever opened them: perhaps a name is misspelt."""

from dataclasses import dataclass

from azure.storage.blob import ContainerClient

from shared.answers import expecting_an_answer
from shared.errors import GateCorruptError
from shared.gate.gates import Gates
from shared.gate.held import HeldSummary, HeldTable
from shared.gate.state import GateState, is_name


@dataclass(frozen=True, slots=True)
class Overview:
    """One gate and what waits behind it."""

    gate: str
    state: GateState
    held: HeldSummary
    #: What is wrong with its blob; such a gate is as good as closed, and its state here is that of a new one.
    problem: str = ""

    @property
    def holds_in_silence(self) -> bool:
        """Whether work waits behind it, nobody ever opened it, and nobody has planned to."""
        never_used = self.state.epoch == 0 and self.state.scheduled is None
        return bool(self.held.count) and never_used and not self.problem


def overview(container: ContainerClient, gates: Gates, held: HeldTable) -> list[Overview]:
    """Return every gate that has a blob or holds something, by name."""
    with expecting_an_answer("list the gates"):
        known = {name for name in container.list_blob_names() if is_name(name)}
    holding = set(filter(is_name, held.gates()))
    waiting = {name: held.summary(name) for name in holding}
    return [_seen(gates, name, waiting.get(name, HeldSummary(0, None))) for name in sorted(known | holding)]


def _seen(gates: Gates, name: str, waiting: HeldSummary) -> Overview:
    try:
        return Overview(name, gates.read(name), waiting)
    except GateCorruptError as error:
        # One broken gate must not hide the others from whoever looks for it.
        return Overview(name, GateState(), waiting, str(error))
