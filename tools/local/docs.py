"""Writes what comes from the code: tables of the documentation, between their markers, and files that Bicep reads.

A test finds drift.

A marked place looks like this, and everything between its two lines is replaced:

    <!-- made by `make docs`: settings -->
    <!-- end -->
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from shared.capability import find_known
from shared.parked import DEFAULT_POLICY
from shared.payload import MIB, OPTIONS, Limits, reading
from shared.refusals import DeliveryReason, Reason, ReasonCode, ResultReason, TableReason
from shared.settings import SETTINGS
from shared.topology import CorrelationFilter, DeliveryRules, Subscription, topology
from shared.usage import Installation, load, polling_seconds
from tools.local import capacity_tables, telemetry_tables
from tools.local.errors import StackError
from tools.local.infra import alerts, capabilities, entities, queries, workbook
from tools.local.infra.tables import TABLES as INFRA, Table
from tools.local.paths import ROOT
from tools.local.picture import picture
from tools.local.readme import code, idle_month, why
from tools.planning.idle_modes import IdleModes

_FOUND = find_known()
CAPABILITIES = [one.capability for one in _FOUND]
#: What a publisher has to know of the bounds.
DESCRIBED_LIMITS = {
    "message_bytes": "bytes of an encoded message",
    "line_bytes": "bytes of a transaction",
    "depth": "arrays and objects within each other",
    "frame_stored_most": "bytes of a frame, stored",
    "frame_expanded_most": "bytes of a frame, expanded",
    "frame_items_most": "transactions in a frame",
    "frames_most": "frames in a payload",
    "items_most": "transactions in a payload",
    "stored_most": "bytes of a payload, stored",
    "expanded_most": "bytes of a payload without an index, expanded",
    "rejected_text_most": "bytes kept of the rejected transactions of a chunk, beyond their numbers and reasons",
    "result_most": "bytes of a workload's partial of a chunk, with its rejected transactions",
    "ratio_most": "expanded bytes for each stored byte, once more than a MiB is expanded",
}
_PLACE = re.compile(r"(<!-- made by `make docs`: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Bring every document up to date and name those that changed."""
    # First the files: some tables say what Bicep makes of them.
    for file, make in FILES.items():
        if not file.exists() or file.read_text() != make():
            file.write_text(make())
            print(f"wrote {file.relative_to(ROOT)}")
    for document in documents():
        text = document.read_text()
        made = render(text)
        if made != text:
            document.write_text(made)
            print(f"wrote {document.relative_to(ROOT)}")
    return 0


def documents() -> list[Path]:
    """Return every document that may hold a marked place."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def render(text: str) -> str:
    """Return the document with every marked place made anew."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{_table(place[2])}\n\n{place[3]}", text)


def _table(name: str) -> str:
    if name not in TABLES:
        raise StackError(f"no table is called {name!r}: the known ones are {', '.join(TABLES)}")
    return TABLES[name]()


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _settings() -> str:
    rows = [
        (f"`{setting.name}`", setting.what, "required" if setting.default is None else _default(setting.default))
        for setting in (*SETTINGS, *chain.from_iterable(one.settings for one in CAPABILITIES))
    ]
    return markdown(("setting", "what it says", "default"), rows)


def _default(text: str) -> str:
    return f"`{text}`" if text else "none"


def _storage() -> str:
    whole = topology()
    rows = (("queue", whole.queues), ("container", whole.containers), ("table", whole.tables))
    return markdown(("kind", "names"), [(kind, ", ".join(f"`{name}`" for name in names)) for kind, names in rows])


def _bus() -> str:
    bus = topology().bus
    rows = [(f"queue `{queue.name}`", "", *_delivery(queue.delivery)) for queue in bus.queues]
    for topic in bus.topics:
        rows += [
            (f"subscription `{topic.name}/{sub.name}`", _filters(sub), *_delivery(sub.delivery))
            for sub in topic.subscriptions
        ]
    return markdown(("entity", "passes", "lock", "deliveries", "time to live", "sessions"), rows)


def _filters(subscription: Subscription) -> str:
    return " or ".join(
        " and ".join(f"`{name} = {value}`" for name, value in one.properties.items())
        if isinstance(one, CorrelationFilter)
        else f"`{one.expression}`"
        for one in subscription.filters
    )


def _delivery(delivery: DeliveryRules) -> tuple[str, str, str, str]:
    lasting = "until taken" if delivery.time_to_live is None else f"{delivery.time_to_live.total_seconds():g} s"
    lock = f"{delivery.lock.total_seconds():g} s"
    return lock, str(delivery.max_delivery_count), lasting, "yes" if delivery.sessions else "no"


def _reasons(*kinds: type[ReasonCode]) -> str:
    rows = dict.fromkeys((f"`{one}`", one.means, one.instead) for kind in kinds for one in kind)
    return markdown(("reason", "what it means", "what to do instead"), rows)


def _limits() -> str:
    rows = [(text, f"{getattr(Limits(), name):,}") for name, text in DESCRIBED_LIMITS.items()]
    return markdown(("bound", "at most"), rows)


def _poison() -> str:
    limits, name = DEFAULT_POLICY, "`SLUICE_POISON_{}`".format
    rows = [
        ("an unknown failure is parked at delivery", limits.deliveries, name("DELIVERIES")),
        ("a transaction that waits for a service is parked after tries", limits.later, name("LATER")),
        ("the begin of a delivery is noted from delivery", limits.noted_from, "fixed"),
        (
            "a suspect chunk has a process of its own from delivery",
            limits.noted_from + 1,
            "fixed",
        ),
        ("seconds that it may take there", limits.alone_seconds, "fixed"),
        ("seconds of a call there", limits.still_seconds, "fixed"),
        ("any other message is parked as an unknown failure after so many", limits.deaths, "fixed"),
        ("a step of a finish after so many", limits.step_deaths, "fixed"),
        ("a job pauses if more of its chunks are parked than", f"{limits.pause_share:.0%}", name("PAUSE_PERCENT")),
        ("and more than", limits.pause_chunks, name("PAUSE_CHUNKS")),
        (
            "a job pauses if more of its transactions are parked one by one than",
            f"{limits.pause_item_share:.0%}",
            name("PAUSE_ITEM_PERCENT"),
        ),
        ("and more than", f"{limits.pause_items:,}", name("PAUSE_ITEMS")),
    ]
    return markdown(("limit", "by default", "setting"), [(what, str(value), by) for what, value, by in rows])


def _memory() -> str:
    chunk = reading.of_chunk(4_000 * 40, 4_000 * 170, 4_000, Limits())
    rows = [
        ("chunks, and submissions that are taken in", reading.WORK, f"a chunk of 4,000 transactions {_mib(chunk)}"),
        (
            "finishing small jobs",
            reading.SMALL_FINISHES,
            f"a merged partial of 60 kB, as JSON, {_mib(reading.of_finish(60_000))}",
        ),
        (
            "finishing large jobs",
            reading.LARGE_FINISHES,
            f"a merged partial of 6 MB {_mib(reading.of_finish(6_000_000))}; finishes are large from {_mib(reading.LARGE)}",
        ),
    ]
    return markdown(("for", "MiB in all", "for example, MiB"), [(what, _mib(most), each) for what, most, each in rows])


def _mib(size: int) -> str:
    return f"{size / MIB:.0f}"


def _prices() -> str:
    prices = load()
    rows = [(f"10,000 requests, {meter}", str(price)) for meter, price in prices.requests.items()]
    rows.append(("the bus, a month", str(prices.bus.month)))
    for up_to, price in prices.bus.tiers:
        rows.append((f"a million bus operations, {f'up to {up_to:,}' if up_to else 'above'}", str(price)))
    rows += [
        ("a million executions, on demand", str(prices.functions.executions)),
        ("a GB-second, on demand", str(prices.functions.gb_second)),
        ("a GB-second, always ready and idle", str(prices.functions.ready_gb_second)),
    ]
    rows += [
        ("a private endpoint, an hour", str(prices.network["endpoint_hour"])),
        ("a GB that passes one, either way", str(prices.network["endpoint_gb"])),
        ("a private DNS zone, a month", str(prices.network["zone"])),
    ]
    for name, one in prices.redundancy.items():
        rows.append((f"a GB of blobs kept for a month, {name}", str(one.gb)))
        rows.append((f"a request of storage, {name}, against Standard_LRS", f"at most {one.requests} times"))
    return f"{markdown(('what', prices.currency), rows)}\n\n{prices}."


def _idle() -> str:
    # Without the environment of the person who types: the page describes a deployment.
    deployed = polling_seconds(json.loads((ROOT / "host.json").read_text()), {})
    modes, prices = IdleModes.of(Installation(polling_seconds=deployed)), load()
    header = ["", *(f"by {mode}, {what}" for mode in modes.named for what in ("a day", f"{prices.currency} a month"))]
    rows = []
    for line in modes.lines(prices):
        cells = [str(line)]
        for mode in modes.named:
            cells += f"{line.requests[mode]:,}", f"{line.amounts[mode]:.2f}"
        rows.append([f"**{cell}**" for cell in cells] if line.is_sum else cells)
    return "\n\n".join([markdown(header, rows), "\n".join(modes.formulas())])


def _table_of(make: Callable[[], Table]) -> str:
    return markdown(*make())


_OWN = {name: make for one in _FOUND if one.capability.tables for name, make in one.load(one.capability.tables).items()}
_ROWS = {**INFRA, **telemetry_tables.TABLES, **capacity_tables.TABLES, **_OWN, "why": why}
TABLES: dict[str, Callable[[], str]] = {
    "settings": _settings,
    "picture": picture,
    "storage": _storage,
    "bus": _bus,
    "reasons": partial(_reasons, Reason, *chain.from_iterable(one.reasons for one in CAPABILITIES)),
    "table-reasons": partial(_reasons, TableReason),
    "parked-reasons": partial(_reasons, DeliveryReason, ResultReason),
    "limits": _limits,
    "options": lambda: markdown(("option", "meaning"), [(f"`{one.name}`", one.help) for one in OPTIONS]),
    "memory": _memory,
    "poison": _poison,
    "prices": _prices,
    "idle": _idle,
    "sales": code,
    "idle-month": idle_month,
    **{name: partial(_table_of, make) for name, make in _ROWS.items()},
}

#: Whole files that come from the code.
FILES: dict[Path, Callable[[], str]] = {
    entities.FILE: entities.text,
    alerts.FILE: alerts.text,
    capabilities.FILE: capabilities.text,
    capabilities.OWN_FILE: capabilities.own_text,
    queries.FILE: queries.text,
    workbook.FILE: workbook.text,
}


if __name__ == "__main__":
    raise SystemExit(main())
