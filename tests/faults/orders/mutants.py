"""Mistakes in registration and its machinery that the runs of its flows must object to."""

from datetime import timedelta

from shared.gate.held_work import HeldWork
from shared.gate.rolls import Rolls
from shared.processes.mementos import Mementos
from shared.processes.runtime import Runtime
from shared.processes.table_homes import TableHomes
from shared.processes.writer import Writer
from tests.faults.mutant import Mutant
from tests.faults.orders import mistakes

ONCE, SELL_BESIDE, RESIZE_BESIDE = (
    "place orders, and nobody asks again",
    "sell, and another process sells",
    "sell, and another process adds seats",
)
HOME, EVENTS, COMMANDS = ("post", "POST $batch"), ("post", "SEND order-events"), ("post", "SEND seat-commands")
#: Of the design's list, by its numbers. The model of an order and the migration find the others.
ORDER_MUTANTS = {
    "1: an order's events are sent before its home is written": Mutant(
        Runtime, "_store", mistakes.send_before_storing, "place orders", "kill_before", COMMANDS
    ),
    "2: the note of a home is written after it": Mutant(
        Runtime,
        "_store",
        mistakes.note_after_storing,
        ONCE,
        "kill_after",
        HOME,
        nth=1,
        also=((Runtime, "_note", mistakes.write_no_note),),
    ),
    "3: the note of a home is removed before its events are sent": Mutant(
        Runtime, "_store", mistakes.remove_before_sending, ONCE, "kill_after", EVENTS
    ),
    "4: events are noted as published before they are sent": Mutant(
        TableHomes, "commit", mistakes.say_published, ONCE, "kill_before", EVENTS
    ),
    "8: a warm state is kept after a conflict": Mutant(
        Mementos, "read", mistakes.read_kept, SELL_BESIDE, also=((Mementos, "keep", mistakes.keep_warm),)
    ),
    "9: a refusal from a warm state is not proven": Mutant(Writer, "_prove", lambda *_: None, RESIZE_BESIDE),
    "14: a decision's events are written in two transactions": Mutant(
        TableHomes, "commit", mistakes.store_halves, "place orders", "kill_after", HOME, nth=1
    ),
    "15: a range of events is dropped by its first one": Mutant(
        "shared.readmodels.view_writer", "fold", mistakes.drop_by_first, "pay after the expiry"
    ),
    "19: the row of a timeout is written after the home": Mutant(
        Runtime,
        "_store",
        mistakes.time_after_storing,
        "place orders",
        "kill_after",
        HOME,
        nth=1,
        also=((Runtime, "_note", mistakes.note_without_timeouts),),
    ),
    "20: a held row is deleted before its start is sent": Mutant(
        HeldWork,
        "send",
        mistakes.forget_before_sending,
        "release and start orders",
        "kill_before",
        ("release", "SEND starts-in-order"),
    ),
    "23: the note of a slow writer is removed when it is due": Mutant(
        "shared.processes.follower", "WRITER_ENDS", timedelta(), "tick while a process is slow"
    ),
    "24: a roll is written before the pointer by which it goes": Mutant(
        Rolls,
        "_make",
        mistakes.make_a_roll_before_its_pointer,
        "release and start orders",
        "kill_after",
        ("release", "PUT pending"),
    ),
    "25: held orders are sent by their ids": Mutant(Rolls, "batches", mistakes.send_by_id, "release and start orders"),
}
