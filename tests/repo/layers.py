"""The layers of `shared` as data: a unit imports from units above it in this list, and from itself."""

#: Packages, and modules that stand alone.
ORDER = (
    (
        "errors",
        "clock",
        "cron",
        "refusals",
        "grammar",
        "topology",
        "memory",
        "names",
        "versions",
        "zstd",
    ),
    ("telemetry",),
    ("azure",),
    ("messages", "pending", "values"),
    ("capability",),
    ("outbox", "signals"),
    ("processes",),
    ("payload",),
    ("parked",),
    ("workloads", "ids", "watch"),
    # Before the ledger: what may happen to a held job follows from the reading of its gate.
    ("gate",),
    ("ledger",),
    ("usage", "publish_stretches"),
    ("publish", "waiting"),
    # After the ledger, whose limits of a row hold here too. They know no orders.
    ("readmodels",),
    ("concurrency",),
    ("dequeue",),
    ("scaling",),
    ("simulation",),
    ("pipeline",),
    ("operating", "promises"),
    ("settings",),
    ("own",),
    ("app", "process_parts"),
)
UNITS = [unit for layer in ORDER for unit in layer]


def unit_of(module):
    """Return the unit of a module of `shared`, None for the package itself; an unknown one is a KeyError."""
    parts = module.split(".")[1:]
    if parts and parts[0] not in UNITS:
        raise KeyError(f"{module} is in no layer: tests/repo/layers.py names each unit")
    return parts[0] if parts else None
