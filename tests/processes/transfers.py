"""A second domain on the machinery alone: money from one account to another, given back where it cannot be credited."""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import msgspec

from shared.processes import Command, Event, ProcessDecision, ReplyClass, Verdict

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Account:
    """What an account has, whether it is open, and the last generation of each transfer."""

    balance: int = 0
    is_open: bool = True
    known: tuple = ()


class Accounts:
    """The aggregate."""

    name, format, initial = "account", 1, Account

    def fold(self, state, event):
        """Return the account after the event."""
        known = {**dict(state.known), event.body.get("transfer"): event.generation}
        balance = state.balance + event.body.get("change", 0)
        return replace(state, balance=balance, is_open=event.kind != "closed", known=tuple(known.items()))

    def pack(self, state):
        """Return the account as JSON."""
        return msgspec.json.encode(state)

    def unpack(self, packed):
        """Return the account."""
        return msgspec.json.decode(packed, type=Account)


def decide(state, command):
    """Debit, credit and give back, each once."""
    if command.generation and command.generation <= dict(state.known).get(command.body["transfer"], 0):
        return Verdict()
    amount = command.body.get("amount", 0)
    kind, change = {
        "open": ("opened", amount),
        "close": ("closed", 0),
        "debit": ("debited", -amount) if state.balance >= amount else ("refused", 0),
        "credit": ("credited", amount) if state.is_open else ("refused", 0),
        "give_back": ("given_back", amount),
    }[command.kind]
    return Verdict((Event(kind, {**command.body, "change": change}, NOW, command.id, command.generation),))


@dataclass(frozen=True)
class Transfer:
    """Where a transfer is. Its generation counts the commands that it sent."""

    stage: str = "new"
    generation: int = 0
    giver: str = ""
    taker: str = ""
    amount: int = 0


#: By stage and answer: the next stage, the next command, and to whom.
STEPS = {
    ("debiting", "debited"): ("crediting", "credit", "taker"),
    ("debiting", "refused"): ("refused", None, None),
    ("crediting", "credited"): ("done", None, None),
    ("crediting", "refused"): ("giving back", "give_back", "giver"),
    ("giving back", "given_back"): ("given back", None, None),
}


class Transfers:
    """The process manager."""

    format = 1

    def upgrade(self, row, format_):
        """Return the row: there is one format."""
        return row

    def restore(self, row, home):
        """Return the transfer."""
        return Transfer(**row) if row else Transfer()

    def store(self, state):
        """Return its row."""
        return asdict(state)

    def decide(self, state, message, now):
        """Begin, or go on by an answer to the last command."""
        if message.kind == "begin":
            if state.stage != "new":
                return ProcessDecision(state=state, reply=ReplyClass.DUPLICATE)
            return self._go(Transfer(**message.body), "debiting", "debit", "giver", message)
        if message.generation != state.generation or (state.stage, message.kind) not in STEPS:
            return ProcessDecision(state=state, reply=ReplyClass.STALE)
        return self._go(state, *STEPS[state.stage, message.kind], message)

    def _go(self, state, stage, kind, role, message):
        state = replace(state, stage=stage, generation=state.generation + bool(kind))
        body = {"transfer": message.id or message.body["transfer"], "amount": state.amount}
        commands = (
            (Command(kind=kind, to=getattr(state, role), body=body, generation=state.generation),) if kind else ()
        )
        return ProcessDecision(state=state, commands=commands, own=(Event(stage, body, NOW),), reply=ReplyClass.CURRENT)
