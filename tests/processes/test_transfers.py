"""The second domain runs: every message comes twice, in any order, and no money is lost or made."""

import random
from functools import partial

import pytest

from shared.azure import Destination, Pushback
from shared.clock import SystemClock
from shared.processes import (
    BusPublisher,
    Case,
    Command,
    HotNotes,
    Incoming,
    Mementos,
    Outgoing,
    Receiver,
    Runtime,
    Writer,
    decode_commands,
    decode_events,
)
from tests.eventsourcing.memory_homes import MemoryHomes
from tests.processes.transfers import NOW, Accounts, Transfers, decide


class Bank:
    """One process: every message comes twice, in any order."""

    def __init__(self, agenda, seed):
        self.homes, self.waiting, self.random, clock = MemoryHomes(), [], random.Random(seed), SystemClock()
        outgoing = Outgoing(BusPublisher(self, Pushback(clock)), self)
        mementos = Mementos(self.homes, Accounts(), 5)
        writer, notes = (
            Writer(self.homes, Accounts(), mementos, decide),
            HotNotes(agenda, clock, agenda.remove, lambda _seconds, _act: None),
        )
        self.receiver = Receiver(self.homes, mementos, writer, notes, outgoing)
        self.runtime = Runtime(Transfers(), "transfer", self.homes, agenda, outgoing, clock=clock, remove=agenda.remove)
        self.state = lambda key: mementos.read(key).state

    topic_of = staticmethod(lambda home: (Destination("topic", "moves"), "0"))
    queue_of = staticmethod(lambda command: Destination("bus", "accounts"))

    def send(self, to, messages):
        """Keep what is sent, twice."""
        self.waiting += 2 * [(to.kind, message.body) for message in messages]

    def run(self):
        """Deliver until nothing is left."""
        while self.waiting:
            kind, body = self.waiting.pop(self.random.randrange(len(self.waiting)))
            if kind == "bus":
                for command in decode_commands(body):
                    self.receiver.receive(command.to, [command])
                continue
            events = [event for one in decode_events(body) for event in one.events if one.home.startswith("account")]
            answers = (
                Incoming(kind=e.kind, body=e.body, at=e.at, generation=e.generation) for e in events if e.command
            )
            self.runtime.handle([Case(home=answer.body["transfer"], message=answer) for answer in answers]).check()


@pytest.mark.parametrize("seed", range(5))
def test_no_money_is_lost_or_made(agenda, seed):
    """One transfer passes, one lacks money, one goes to a closed account and comes back."""
    bank = Bank(agenda, seed)
    for name, kind, amount in (("a", "open", 100), ("b", "open", 0), ("c", "close", 0)):
        bank.receiver.receive(f"account-{name}", [Command(kind=kind, to="", body={"amount": amount})])
    begin = partial(Incoming, kind="begin", at=NOW)
    for n, (taker, amount) in enumerate([("b", 60), ("b", 1000), ("c", 30)]):
        body = {"giver": "account-a", "taker": f"account-{taker}", "amount": amount}
        for _ in range(2):
            bank.runtime.handle([Case(home=f"transfer-{n}", message=begin(id=f"transfer-{n}", body=body))]).check()
    bank.run()
    assert [bank.state(f"account-{name}").balance for name in "abc"] == [40, 60, 0]
    stages = [bank.homes.load(f"transfer-{n}").process["state"]["stage"] for n in range(3)]
    assert stages == ["done", "refused", "given back"]
