"""Limits and defaults that a page states in a sentence: each is the value of the code, at its place."""

import inspect
import json
import re

import pytest

from capabilities.console.pages.rules import MOST_MESSAGES
from capabilities.registration.order_process import MOST_SKIPPED
from capabilities.registration.public_messages import MOST_QUOTA, MOST_TYPES
from capabilities.registration.seats import KEPT_FOR
from shared import memory
from shared.app.app import GATES_TAKE
from shared.azure import connections, pushback
from shared.capability import builtin_names, find
from shared.concurrency import fleet, rules
from shared.concurrency.fleet import LOOK_EVERY
from shared.dequeue import drain, permits, receiving
from shared.gate.held_work import TAKES_FOR
from shared.grammar import DIGITS, DIGITS_OF_SUM, LONGEST_BLOB, PLACES
from shared.ids.book import _GROWTH, LARGEST_SKEW, WRITES, Sizing
from shared.ids.range_generator import RangeGenerator
from shared.ledger import settlement
from shared.ledger.ledger import MOST_ROWS
from shared.operating.replay import WAVES
from shared.payload.payload_store import KIB, MIB, Limits
from shared.payload.transactions import MOST_DIGITS
from shared.pipeline import results, sweep
from shared.pipeline.dispatch import CURSOR_EVERY
from shared.pipeline.outputs import PART_BYTES
from shared.pipeline.plan import SPARED
from shared.pipeline.removal import cleanup
from shared.pipeline.segments import SEGMENT_BYTES, SEGMENT_CHUNKS, SEGMENT_LINES, SEGMENT_PARTIAL
from shared.processes import MOST_EVENTS, STUCK_AFTER, table_homes
from shared.settings import SETTINGS
from shared.topology import GUARD
from shared.usage.bill import load
from shared.workloads.billing import LONGEST_ACCOUNT, MOST_QUANTITY
from shared.workloads.registry import CONCURRENCY, LONGEST_LINE, MOST_SUMS
from tests.ledger.test_segments import ONE_SEGMENT, TWO_SEGMENTS
from tools.local.paths import ROOT

HOST = json.loads((ROOT / "host.json").read_text())["extensions"]["queues"]
#: The messages of one queue that the host of an instance runs at a time.
AT_ONCE = HOST["batchSize"] + HOST["newBatchThreshold"]
LIMITS, SIZING = Limits(), Sizing()
OWN = [setting for said in builtin_names() for setting in find(said).capability.settings]
DEFAULTS = {setting.name: setting.default for setting in (*SETTINGS, *OWN)}
WORDS = {
    1: "one",
    2: "two",
    3: "three",
    4: "four",
    5: "five",
    10: "ten",
    15: "fifteen",
    30: "half a minute",
    100: "hundred",
}


def word(number):
    """Return a number as the pages write it."""
    return WORDS.get(number, number)


def seconds(duration):
    """Return a duration as a whole number of seconds."""
    return int(duration.total_seconds())


def default(function, name):
    """Return the default of an argument."""
    return inspect.signature(function).parameters[name].default


def cells(page, row):
    """Return the cells of the first row of a page's appendix that begins so."""
    text = (ROOT / "docs" / "appendix" / page).read_text()
    found = next(line for line in text.splitlines() if line.startswith(f"| {row}"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def measured(page, row, column):
    """Return the number in a cell of a page's appendix: its unit and its spread are left out."""
    return float(re.match(r"[\d.,]+", cells(page, row)[column])[0].replace(",", ""))


def seconds_of(load, instances):
    """Return the time that the model of capacity says for a load."""
    return cells("capacity.md", f"{load} | {instances} |")[2]


def requests_of(load):
    """Return the storage requests that it says: the row of costs alone has no number of instances."""
    text = (ROOT / "docs" / "appendix" / "capacity.md").read_text().partition("capacity-costs")[2]
    return re.search(rf"^\| {load} \| ([\d,]+) \|", text, re.MULTILINE)[1]


#: A page, and what stands there with the values of the code.
STATED = [
    ("formats.md", f"up to a {word(SPARED)}th fewer"),
    ("formats.md", f"{LIMITS.chunk_frames_most} frames and {LIMITS.chunk_stored_most // MIB} MiB at most"),
    ("formats.md", f"lines, {LIMITS.frame_items:,} by default"),
    ("formats.md", f"with {LIMITS.frame_items_least} lines at least"),
    ("formats.md", f"about {LIMITS.chunks_most:,} chunks at most"),
    ("concurrency.md", f"{word(seconds(fleet.QUIET))} seconds and {word(fleet.LATENCIES)} times"),
    ("concurrency.md", f"{word(seconds(fleet.LONGEST_QUIET))} at most"),
    ("concurrency.md", f"by less than {fleet.SMALLEST_CHANGE:.0%}"),
    ("concurrency.md", f"for refusals within {word(seconds(pushback.TOGETHER))} seconds"),
    ("concurrency.md", f"nothing grows for {word(seconds(pushback.QUIET))} seconds"),
    ("concurrency.md", f"up to {word(seconds(pushback.LONGEST_QUIET) // 60)} minutes"),
    ("concurrency.md", f"{connections.PAUSE} s at most before the first of {word(connections.RETRIES)} retries"),
    ("concurrency.md", f"longer than {pushback.LONGEST_WAIT:.0f} s"),
    ("concurrency.md", f"{pushback.GROWTH * 100:.0f} % of the full rate"),
    ("concurrency.md", f"those of the slot that it has leased | {LOOK_EVERY:.0f} s |"),
    ("console.md", f"A page replays a day of {MOST_MESSAGES:,} messages at most"),
    ("dequeue.md", f"clamp(ceil(depth / tasks), 1, {receiving.MOST_MESSAGES})"),
    ("dequeue.md", f"than the task can run in {word(int(receiving.AHEAD))} second"),
    ("dequeue.md", f"({drain.Drain.__dataclass_fields__['visibility'].default} s)"),
    ("dequeue.md", f"after {drain.PATIENCE:.0f} s, releases the slot"),
    ("dequeue.md", f"its slot and its messages for {max(permits.LEASE_SECONDS, GUARD.seconds)} s"),
    ("dequeue.md", f"stops by its own clock {word(permits.MARGIN)} seconds"),
    ("dequeue.md", f"for each {word(CURSOR_EVERY)} chunks of a dispatch"),
    ("design.md", f"after {seconds(TAKES_FOR)} s;"),
    ("design.md", f"{seconds(GATES_TAKE)} s for gates, then jobs until {seconds(TAKES_FOR)} s"),
    ("design.md", f"up to a {word(CURSOR_EVERY)} chunks put twice"),
    ("formats.md", f"at most {LIMITS.message_bytes // KIB} KiB"),
    ("formats.md", f"at most {LIMITS.line_bytes // KIB} KiB (`line_too_long`), and {LIMITS.depth} arrays"),
    ("formats.md", f"at most {MOST_DIGITS:,} digits"),
    ("formats.md", f"at most {DIGITS} digits before the point and {PLACES} behind it"),
    ("formats.md", f"may have {DIGITS_OF_SUM} digits before"),
    ("formats.md", f"at most {LONGEST_BLOB} of"),
    ("formats.md", f"({DEFAULTS['SLUICE_RETENTION_DAYS']} days, unless"),
    ("formats.md", f"About {LIMITS.frame_items:,} lines"),
    ("formats.md", f"{word(LIMITS.line_least)} bytes at least"),
    ("formats.md", f"expand to {LIMITS.ratio_most} times"),
    ("formats.md", f"fit in {LIMITS.rejected_text_most // MIB} MiB"),
    ("appendix/codec.md", f"waits for {word(memory.PATIENCE // 60)} minutes"),
    ("formats.md", f"works on {AT_ONCE} messages"),
    ("concurrency.md", f"| below {rules.SOME} | {rules.BUILT_IN.rules[0].target.tasks} |"),
    ("concurrency.md", f"| {rules.SOME} to {rules.MUCH - 1} | {rules.BUILT_IN.rules[1].target.tasks} |"),
    ("concurrency.md", f"| {rules.MUCH} and more | {rules.BUILT_IN.rules[2].target.tasks} |"),
    ("appendix/codec.md", f"up to {LIMITS.part_items:,} lines and {LIMITS.part_bytes // MIB} MiB"),
    ("formats.md", f"({DEFAULTS['SLUICE_MERGED_MIB']} unless it is set"),
    ("capacity.md", f"takes {seconds_of('one job of 10,000,000', 1)} on one instance"),
    ("capacity.md", f"and {seconds_of('one job of 10,000,000', 10)} on ten."),
    ("capacity.md", f"take {seconds_of('100,000,000 in 10 jobs', 10)} on ten instances"),
    ("capacity.md", f"take {requests_of('100,000,000 in 100,000 jobs')} requests instead of"),
    ("capacity.md", f"instead of {requests_of('100,000,000 in 10 jobs')} in 10 jobs"),
    ("capacity.md", f"held {cells('capacity.md', 'most memory of any process')[1]} at most"),
    ("concurrency.md", f"came back after {measured('concurrency.md', 'every process and the decision', 1):.0f} s"),
    ("performance.md", f"{measured('performance.md', '98 |', 4)} times less CPU for 98 rows"),
    ("performance.md", f"answers {measured('performance.md', 'Sluice, placed at once', 2):.0f} orders/s"),
    ("performance.md", f"and the port {measured('performance.md', 'port of the source', 2):.0f}. Sluice serves"),
    (
        "performance.md",
        f"a steady {measured('performance.md', 'orders/s that are all served in 5 s', 2):.0f} orders/s within",
    ),
    ("dequeue.md", f"{measured('dequeue.md', 'push, under the local host', 2):.2f} s after its put by push"),
    ("ids.md", f"{measured('ids.md', '`next_id()` against the bare locked counter', 1)} times as fast"),
    ("ids.md", f"{measured('ids.md', 'blob requests against Twist', 1):.0f} times fewer requests"),
    (
        "ids.md",
        f"under {measured('ids.md', 'kills', 1):.0f} kills and {measured('ids.md', 'lost replies', 1):,.0f} lost",
    ),
    ("registration.md", f"{cells('registration.md', 'seats that went')[1].partition(', ')[0]} seats sold once each"),
    ("registration.md", f"over {cells('registration.md', 'processes that work')[1].partition(', ')[2]} kills"),
    ("registration.md", f"They are forgotten {KEPT_FOR.seconds // 60} minutes after the end of the window"),
    ("registration.md", f"has not ended {KEPT_FOR.seconds // 60} minutes after its window is *overdue*"),
    ("registration.md", f"The first {MOST_SKIPPED} skipped answers"),
    ("registration.md", f"has not ended {STUCK_AFTER.seconds // 60} minutes after its due time"),
    ("registration.md", f"have at most {DEFAULTS['SLUICE_SEATS_PER_ORDER']} seats of one type"),
    ("registration.md", f"at most {MOST_TYPES} types, and a quota is at most {MOST_QUOTA:,}"),
    ("gate.md", f"({seconds(TAKES_FOR)} s, the tick {seconds(GATES_TAKE)} s)"),
    ("ids.md", f"range of a node is {SIZING.first} numbers. Each further one is at most {word(_GROWTH)} times"),
    ("ids.md", f"`range_size` ({SIZING.range_size:,}) a range lasts {seconds(SIZING.patience)} s"),
    ("ids.md", f"(`wait`, {seconds(default(RangeGenerator, 'wait'))} s)"),
    ("ids.md", f"`max_attempts` ({WRITES.attempts})"),
    ("ids.md", f"more than {seconds(LARGEST_SKEW) // 60} minutes"),
    ("appendix/processes.md", f"one transaction of up to {MOST_EVENTS} events"),
    ("appendix/processes.md", f"larger than {table_homes._MOST_IN_A_ROW // KIB} KiB"),
    ("appendix/processes.md", f"up to {word(table_homes._WRITES)} times in all"),
    ("appendix/processes.md", f"for each {table_homes._PAGE:,} rows"),
    ("ledger.md", f"up to {MOST_ROWS} chunk rows"),
    ("appendix/ledger.md", f"first {settlement.FRONT} messages of each work queue"),
    ("appendix/ledger.md", f"`put_until` is {seconds(settlement.MARGIN)} s below"),
    ("appendix/ledger.md", f"{sweep.FRUITLESS} rows of jobs"),
    ("ledger.md", f"cut to {LONGEST_LINE:,} characters"),
    ("ledger.md", f"have more than {LIMITS.rejected_text_most // MIB} MiB"),
    ("ledger.md", f"up to {PART_BYTES // MIB} MiB of lines"),
    (
        "appendix/ledger.md",
        (
            f"up to {SEGMENT_CHUNKS} neighbouring chunks, whose results have at most {SEGMENT_BYTES // MIB} MiB together, compressed, and "
            f"whose partials have at most {SEGMENT_PARTIAL // MIB} MiB as JSON. Their lines have at most {SEGMENT_LINES // MIB} MiB"
        ),
    ),
    ("ledger.md", f"| one segment | {ONE_SEGMENT} | | two segments | {TWO_SEGMENTS} |"),
    ("ledger.md", f"at {cleanup.SWEEP_HOUR:02}:00 UTC"),
    ("ledger.md", f"{cleanup.PAGE:,} blobs of a container"),
    ("ledger.md", f"{cleanup.PAGE * cleanup.PAGES_A_TICK:,} blobs at most"),
    ("ledger.md", f"up to {results.WINDOW} results, of together {results.WINDOW_BYTES // MIB} MiB"),
    ("parked.md", f"waves of {', '.join(map(str, WAVES))}, {WAVES[-1]} ..."),
    ("workloads.md", f"`concurrency`, {CONCURRENCY} where"),
    ("workloads.md", f"at most {word(MOST_SUMS)}"),
    ("workloads.md", f"at most {MOST_QUANTITY:,}"),
    ("workloads.md", f"more than {LONGEST_ACCOUNT} |"),
]


@pytest.mark.parametrize(("page", "said"), STATED, ids=[f"{page}: {said}" for page, said in STATED])
def test_a_figure_of_a_page_is_the_value_of_the_code(page, said):
    """A limit that is changed in the code turns the sentence that states it red."""
    assert said in " ".join((ROOT / "docs" / page).read_text().split())


def test_the_figures_of_a_row_stand_in_the_appendix():
    """The page on performance shows some columns of a measured row; another measurement turns it red."""
    text = (ROOT / "docs" / "performance.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.* [\d.,]+ \|$", text, re.MULTILINE)
    ]
    assert len(rows) > 5
    for name, *figures in rows:
        assert {*figures} <= {cell.partition(" [")[0] for cell in cells("performance.md", name)}, name


@pytest.mark.parametrize("page", ["README.md", "docs/cost.md", "docs/deploy.md", "docs/concurrency.md"])
def test_printed_prices_name_a_source_or_say_unverified(page):
    """No page and no command prints a price as if it had been looked up."""
    assert re.search(r"https://|unverified: check before you rely on it", str(load()))
    text = (ROOT / page).read_text()
    assert "USD" not in text or "unverified: check before you rely on it" in text
