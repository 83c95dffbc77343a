"""A small process of the tests: it asks a shop for something, waits for the answer, and gives up after a minute."""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from shared.azure import Destination
from shared.errors import RefusedError
from shared.processes import Case, Command, Event, Incoming, ProcessDecision, ReplyClass, Timeout

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
WAITS = timedelta(minutes=5)


@dataclass(frozen=True)
class ErrandState:
    """Where an errand is."""

    stage: str = "none"
    generation: int = 0
    applied: int = 0
    due: str = ""


class Errands:
    """The process."""

    format = 1

    def upgrade(self, row, format_):
        """Nothing was stored earlier."""
        raise NotImplementedError

    def restore(self, row, home):
        """Return the state."""
        return ErrandState(**row) if row else ErrandState()

    def store(self, state):
        """Return the row."""
        return asdict(state)

    def decide(self, state, message, now):
        """Decide by the kind of the message."""
        return getattr(self, f"_{message.kind}")(state, message, now)

    def _ask(self, state, message, now):
        if state.stage != "none":
            return ProcessDecision(state=state, reply=ReplyClass.DUPLICATE)
        due = now + WAITS
        return ProcessDecision(
            state=ErrandState("asked", 1, 0, due.isoformat()),
            commands=(Command(kind="fetch", to="shop-1", body=message.body, generation=1),),
            timeouts=(Timeout("give_up", due),),
            own=(Event("asked", message.body, now), Event("thought", {}, now, is_public=False)),
        )

    def _got(self, state, message, now):
        if state.stage == "none" or message.generation > state.generation:
            return ProcessDecision(state=state, reply=ReplyClass.UNEXPECTED)
        if message.generation <= state.applied:
            return ProcessDecision(state=state, reply=ReplyClass.DUPLICATE)
        if message.generation < state.generation or state.stage != "asked":
            skipped = Event("skipped", {}, now, is_public=False)
            return ProcessDecision(state=state, own=(skipped,), reply=ReplyClass.STALE)
        return ProcessDecision(
            state=replace(state, stage="done", applied=message.generation),
            commands=(Command(kind="thank", to="shop-1", body={}, generation=state.generation + 1),),
            own=(Event("got", {}, now, generation=message.generation),),
            dropped=(Timeout("give_up", datetime.fromisoformat(state.due)),),
            reply=ReplyClass.CURRENT,
        )

    def _give_up(self, state, message, now):
        if state.stage != "asked" or state.due != message.at.isoformat():
            return ProcessDecision(state=state)
        return ProcessDecision(
            state=replace(state, stage="given up", generation=state.generation + 1),
            commands=(Command(kind="forget", to="shop-1", body={}, generation=state.generation + 1),),
            own=(Event("gave_up", {}, now),),
        )

    def _remark(self, state, message, now):
        if message.body.get("text") == "rude":
            raise RefusedError("rude", "it is rude", "be kind")
        if message.body.get("text") == "defect":
            raise KeyError("defect")
        if message.body.get("text") == "exit":
            raise SystemExit(3)
        inbox = {f"remark:{message.id}": str(message.body)}
        return ProcessDecision(state=state, own=(Event("remarked", message.body, now),), inbox=inbox)


class ErrandRoutes:
    """Everything about errands goes to one topic, all commands to the shop's queue."""

    def topic_of(self, home):
        """Return the topic and the session."""
        return Destination("topic", "errand-events"), "0"

    def queue_of(self, command):
        """Return the queue."""
        return Destination("bus", "shop")


def ask(home="errand-1", number=7, **changes):
    """Return the message that begins an errand."""
    message = Incoming(kind="ask", body={"what": "bread"}, at=NOON)
    return Case(**{"home": home, "message": message, "fields": {"number": number}, "number": number} | changes)


def got(home="errand-1", generation=1):
    """Return the answer of the shop."""
    return Case(home=home, message=Incoming(kind="got", body={}, at=NOON, generation=generation))


def remark(text="good", id_="r1", home="errand-1"):
    """Return a message of the outside."""
    return Case(home=home, message=Incoming(kind="remark", body={"text": text}, at=NOON, id=id_))
