"""The table of docs/capacity.md of every bound that a large job meets. Each value is read where the code has it."""

from dataclasses import dataclass, fields
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from local.infra.tables import Table
from shared.payload import MIB, Limits
from shared.settings import SETTINGS

KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound: its constant as `module:name`, where it is enforced, and what happens beyond it."""

    what: str
    constant: str
    #: The module that compares with it, as a path.
    enforced: str
    beyond: str
    unit: str = ""

    @property
    def name(self) -> str:
        """The constant's name."""
        return self.constant.partition(":")[2]

    @property
    def value(self) -> Any:
        """The value of the code."""
        module, _, name = self.constant.partition(":")
        if module == "shared.payload.limits" and name in {field.name for field in fields(Limits)}:
            return getattr(Limits(), name)
        if module == "settings":
            return next(setting.default for setting in SETTINGS if setting.name == name)
        return getattr(import_module(module), name)

    @property
    def text(self) -> str:
        """The value as the page has it."""
        value = self.value
        if isinstance(value, timedelta):
            return f"{value.total_seconds():g} s"
        if self.unit == "bytes":
            return f"{value // MIB:,} MiB" if value >= MIB else f"{value // KIB:,} KiB"
        shown = f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
        return f"{shown} {self.unit}".strip()


def _limit(what: str, name: str, enforced: str, beyond: str, unit: str = "") -> Bound:
    return Bound(what, f"shared.payload.limits:{name}", f"shared/payload/{enforced}.py", beyond, unit)


_REFUSED: Final = "the submission is parked as `{}`".format
_SEGMENTS, _NEXT = "shared/pipeline/segments.py", "the next segment begins"
_RESULTS, _BLOB = "shared/pipeline/results.py", "it is stored as a blob, and its message names it"
_SENT, _TAKES = "shared/pipeline/bus_results.py", "the next message takes them"
_READ, _WAITS = "shared/pipeline/result_reading.py", "the next read waits"
_PLAN, _SPLIT = "shared/pipeline/plan.py", "the next chunk begins"
BOUNDS: Final = (
    _limit("transactions of a job", "items_most", "frames", _REFUSED("too_many_items")),
    _limit("stored bytes of a payload", "stored_most", "frames", _REFUSED("payload_too_large"), "bytes"),
    _limit("frames of a payload", "frames_most", "frames", _REFUSED("too_many_items")),
    _limit("bytes of an index", "index_bytes", "intake", _REFUSED("too_many_items"), "bytes"),
    _limit("bytes of a frame, stored", "frame_stored_most", "frames", _REFUSED("frame_too_large"), "bytes"),
    _limit("bytes of a frame, expanded", "frame_expanded_most", "compression", "its chunk is parked", "bytes"),
    _limit("bytes of a transaction", "line_bytes", "frames", "the publisher refuses it", "bytes"),
    _limit("bytes of a queue message", "message_bytes", "envelope", "the bytes go into a blob instead", "bytes"),
    Bound(
        "transactions of a chunk, by `auto`",
        "shared.pipeline.chunk_size:LARGEST",
        "shared/pipeline/chunk_size.py",
        _SPLIT,
    ),
    Bound(
        "seconds of a chunk, by `auto` and its workload's measured speed",
        "shared.pipeline.chunk_size:LONGEST",
        "shared/pipeline/chunk_size.py",
        "the workload's next large job has smaller chunks",
        "s",
    ),
    Bound("chunks of a job", "shared.payload.limits:chunks_most", _PLAN, "its chunks are larger"),
    Bound("frames of a chunk", "shared.payload.limits:chunk_frames_most", _PLAN, _SPLIT),
    Bound("stored bytes of a chunk", "shared.payload.limits:chunk_stored_most", _PLAN, _SPLIT, "bytes"),
    Bound(
        "bytes of a chunk's result",
        "shared.payload.limits:result_most",
        "shared/pipeline/results.py",
        "the chunk is parked as `result_too_large`",
        "bytes",
    ),
    Bound(
        "bytes kept of a chunk's rejected transactions",
        "shared.payload.limits:rejected_text_most",
        "shared/pipeline/outputs.py",
        "number and reason stay, the text is `not kept`",
        "bytes",
    ),
    Bound(
        "bytes of a result beside its content",
        "shared.pipeline.bus_results:MOST_BYTES",
        "shared/pipeline/bus_results.py",
        "the chunk is parked",
        "bytes",
    ),
    Bound("results of one message on the bus", "shared.pipeline.bus_results:MOST_AT_ONCE", _SENT, _TAKES),
    Bound("bytes of one message with results", "shared.pipeline.bus_results:BUNDLE_MOST", _SENT, _TAKES, "bytes"),
    Bound("packed bytes of a result in its message", "shared.pipeline.results:CONTENT_MOST", _RESULTS, _BLOB, "bytes"),
    Bound("bytes of such a result, unpacked", "shared.pipeline.results:EXPANDED_MOST", _RESULTS, _BLOB, "bytes"),
    Bound(
        "chunks between two notes of a dispatch",
        "shared.pipeline.dispatch:CURSOR_EVERY",
        "shared/pipeline/dispatch.py",
        "after a crash so many are put twice",
    ),
    Bound(
        "puts in flight of one dispatch",
        "shared.pipeline.dispatch:MOST",
        "shared/pipeline/dispatch.py",
        "the next put waits",
    ),
    Bound(
        "rows of one transaction beside the job's own",
        "shared.ledger.ledger:MOST_ROWS",
        "shared/pipeline/received.py",
        "the next transaction takes them",
    ),
    Bound(
        "bytes of one transaction of totals",
        "shared.azure.row_groups:MOST_GROUP_BYTES",
        "shared/pipeline/totals.py",
        "the next transaction takes them",
        "bytes",
    ),
    Bound(
        "lost races of one settler in a batch",
        "shared.pipeline.settle:MOST_RACES",
        "shared/pipeline/settle.py",
        "the batch is delivered again",
    ),
    Bound(
        "merged partial of a job, MiB as JSON",
        "settings:SLUICE_MERGED_MIB",
        "shared/pipeline/merge.py",
        "the job is paused with the size",
    ),
    Bound("results in memory of a finish", "shared.pipeline.result_reading:WINDOW", _READ, _WAITS),
    Bound("their bytes together", "shared.pipeline.result_reading:WINDOW_BYTES", _READ, _WAITS, "bytes"),
    Bound(
        "packed bytes read of blobs of several results at a time",
        "shared.pipeline.result_reading:SLICES_MOST",
        _READ,
        "the next window takes them",
        "bytes",
    ),
    Bound("chunks of a segment", "shared.pipeline.segments:SEGMENT_CHUNKS", _SEGMENTS, _NEXT),
    Bound(
        "shards of a job's totals, with `split`",
        "shared.pipeline.segments:SHARDS",
        _SEGMENTS,
        "each account is in one of them",
    ),
    Bound(
        "packed bytes of merged segments for each shard, below the most",
        "shared.pipeline.segments:SHARD_BYTES",
        _SEGMENTS,
        "twice as many shards",
        "bytes",
    ),
    Bound("stored bytes of a segment's results", "shared.pipeline.segments:SEGMENT_BYTES", _SEGMENTS, _NEXT, "bytes"),
    Bound(
        "bytes of lines of one output part",
        "shared.pipeline.outputs:PART_BYTES",
        "shared/pipeline/outputs.py",
        "the next part begins",
        "bytes",
    ),
    Bound(
        "memory of a process for chunks and submissions",
        "shared.payload.reading:WORK",
        "shared/app/stages.py",
        "the next message waits",
        "bytes",
    ),
    Bound(
        "memory of a process to finish large jobs",
        "shared.payload.reading:LARGE_FINISHES",
        "shared/pipeline/finish.py",
        "the next job waits",
        "bytes",
    ),
    Bound(
        "wait for that memory",
        "shared.memory:PATIENCE",
        "shared/memory.py",
        "the message is delivered again",
        "s",
    ),
    Bound(
        "time in which a tick begins work on jobs",
        "shared.gate.held_work:TAKES_FOR",
        "shared/app/tick.py",
        "the next tick continues",
    ),
    Bound(
        "time in which a tick begins entries behind gates",
        "shared.app.tick:GATES_TAKE",
        "shared/app/tick.py",
        "the next tick continues",
    ),
    Bound(
        "silent chunks put again at a time",
        "shared.pipeline.put_again:SLICE",
        "shared/pipeline/put_again.py",
        "the next slice follows, or the next tick",
    ),
    Bound(
        "rows of jobs that a tick reads in vain",
        "shared.pipeline.fronts:FRUITLESS",
        "shared/pipeline/fronts.py",
        "the next tick continues",
    ),
    Bound(
        "blobs of one request of retention",
        "shared.pipeline.retention:MOST_OF_A_BATCH",
        "shared/pipeline/retention.py",
        "the next request follows",
    ),
    Bound(
        "pages of blobs that a tick of the sweep reads",
        "shared.pipeline.orphans:PAGES_A_TICK",
        "shared/pipeline/orphans.py",
        "the next tick continues",
    ),
    Bound(
        "tasks of an operator's rules",
        "shared.concurrency.rules:MOST_TASKS",
        "shared/concurrency/rules_text.py",
        "the rules are refused",
    ),
)


def table() -> Table:
    """Return the bounds."""
    rows = [(one.what, one.text, one.beyond, f"`{one.name}` in `{one.enforced}`") for one in BOUNDS]
    return ("bound", "at most", "beyond it", "enforced by"), rows
