"""The layers of `shared` as data: a unit imports from units above it in this list, and from itself."""

#: Packages, and modules that stand alone.
ORDER = (
    ("errors", "clock", "retry", "closing", "refusals", "grammar", "topology", "memory"),
    ("telemetry",),
    ("azure",),
    ("messages", "pending"),
    ("outbox", "signals"),
    ("payload",),
    ("parked",),
    ("workloads", "ids"),
    # Before the ledger: what may happen to a held job follows from the reading of its gate.
    ("gate",),
    ("ledger",),
    ("usage",),
    ("publish", "waiting"),
    ("concurrency",),
    ("dequeue",),
    ("scaling",),
    ("pipeline",),
    ("operating",),
    ("settings",),
    ("app",),
)
#: Where modules and packages belong that are not in their unit yet; the longest name that fits counts.
BELONGS = {
    "answers": "azure",
    "audit": "operating",
    "blob_lease": "azure",
    "bus": "azure",
    "concurrency.governor": "azure",
    "concurrency.pushback": "azure",
    "connection_settings": "azure",
    "connections": "azure",
    "credentials": "azure",
    "dequeue.signals": "signals",
    "gate.flag": "waiting",
    "gate.lease": "waiting",
    "gate.listening": "waiting",
    "gate.operator": "operating",
    "gate.overview": "operating",
    "gate.release": "waiting",
    "gate.signals": "signals",
    "gate.waiting": "waiting",
    "gate.watch": "waiting",
    "ids.blob_store": "azure",
    "ids.store": "azure",
    "kept_sender": "azure",
    "ledger.amounts": "grammar",
    "parked.grouping": "operating",
    "parked.operator": "operating",
    "parked.replay": "operating",
    "payload.decimals": "grammar",
    "payload.names": "grammar",
    "payload.reasons": "refusals",
    "pipeline.calling": "workloads",
    "pipeline.chunk_reader": "payload",
    "pipeline.deliveries": "parked",
    "pipeline.failure": "parked",
    "pipeline.messages": "messages",
    "pipeline.patience": "retry",
    "pipeline.resume": "operating",
    "pipeline.weights": "payload",
    "rooms": "grammar",
    "signed_session": "azure",
    "tick": "app",
    "trying": "retry",
    "usage.meter": "azure",
    "usage.requests": "azure",
    "usage.tally": "azure",
}
UNITS = [unit for layer in ORDER for unit in layer]


def unit_of(module):
    """Return the unit of a module of `shared`, None for the package itself; an unknown one is a KeyError."""
    parts = module.split(".")[1:]
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in BELONGS:
            return BELONGS[name]
    if parts and parts[0] not in UNITS:
        raise KeyError(f"{module} is in no layer: tests/repo/layers.py names each unit")
    return parts[0] if parts else None
