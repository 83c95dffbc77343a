"""How `sluice tune shares` shows the shares of rooms, what waits in them, and what they were served."""

from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table

from shared.concurrency import FeedRow, Fleet, RoomShare


@dataclass(frozen=True, slots=True)
class RoomLine:
    """A room that has a share of its own, in which jobs wait, or that was served in the last minute."""

    room: str
    share: RoomShare
    jobs: int
    chunks: int
    #: Its part of the work while jobs wait in it. None: no job does.
    part: float | None
    seconds: float
    #: Its part of all seconds that were served. None: none were.
    served: float | None


def list_rooms(fleet: Fleet) -> list[RoomLine]:
    """Return the rooms, as the feeder wrote a few seconds ago."""
    shares, feed = fleet.rules.shares, fleet.feed
    jobs, chunks, served = (feed.jobs, feed.waiting, feed.served) if feed else ({}, {}, {})
    weights, seconds = sum(shares.of(room).weight for room in jobs), sum(served.values())
    return [
        RoomLine(
            room=room,
            share=shares.of(room),
            jobs=jobs.get(room, 0),
            chunks=chunks.get(room, 0),
            part=shares.of(room).weight / weights if room in jobs else None,
            seconds=served.get(room, 0.0),
            served=served.get(room, 0.0) / seconds if seconds else None,
        )
        for room in sorted({*shares.rooms, *jobs, *served})
    ]


def shares_document(fleet: Fleet, now: datetime) -> dict[str, object]:
    """Return the shares as JSON."""
    return {
        "urgent": fleet.rules.shares.urgent,
        "rooms": [
            {
                "room": line.room,
                "weight": line.share.weight,
                "most": line.share.most,
                "jobs": line.jobs,
                "chunks": line.chunks,
                "share": _round(line.part),
                "served": _round(line.served),
                "served_seconds": line.seconds,
            }
            for line in list_rooms(fleet)
        ],
        "feeder": _feeder_document(fleet, fleet.feed, now) if fleet.feed else None,
    }


def _feeder_document(fleet: Fleet, feed: FeedRow, now: datetime) -> dict[str, object]:
    return {
        "process": feed.by,
        "since": _text(feed.since),
        "until": _text(feed.until),
        "window": feed.window,
        "depth": feed.depth,
        "resting": sum(fleet.resting(now).values()),
    }


def shares_table(fleet: Fleet) -> Table:
    """Return the shares for a person."""
    table = Table(
        "room",
        "weight",
        "most",
        "jobs waiting",
        "chunks",
        "share",
        "served, last minute",
        title="How rooms share the work",
    )
    for line in list_rooms(fleet):
        table.add_row(
            line.room or "(common)",
            str(line.share.weight),
            "" if line.share.most is None else f"{line.share.most:,}",
            f"{line.jobs:,}",
            f"{line.chunks:,}",
            _percent(line.part),
            f"{_percent(line.served)} ({line.seconds:,.0f} s of work)" if line.seconds else "",
        )
    return table


def describe_feeder(fleet: Fleet, now: datetime) -> str:
    """Return a line about the feeder, for a person."""
    feed = fleet.feed
    if feed is None:
        return "feeder: none, for no job waits for its turn"
    who = f"process {feed.by[:8]}, since {feed.since.astimezone(UTC):%H:%M:%S} UTC"
    if feed.until <= now:
        return f"feeder: {who}, wrote nothing since {feed.until.astimezone(UTC):%H:%M:%S}: another one takes over"
    each, resting = fleet.latency(now), sum(fleet.resting(now).values())
    tasks = f"{fleet.decision.tasks if fleet.decision else 0} tasks" + (f", {each:.1f} s a chunk" if each else "")
    waits = f", {resting} of them wait after a failure" if resting else ""
    return f"feeder: {who}; window {feed.window} chunks ({tasks}); {feed.depth} on the queues{waits}"


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


def _round(part: float | None) -> float | None:
    return None if part is None else round(part, 4)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
