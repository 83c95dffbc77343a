"""The pipeline end to end beside what else could do its work: `python -m tests.benchmarks.pipeline`.

Everything runs on this machine in one go, so that the ratios mean something. Writes its tables into
docs/performance.md and what it measured into .stack/bench/pipeline.json. `--quick` runs everything once and small,
`--runs N` sets how often the short ones are run.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from local.paths import ROOT
from shared.workloads.billing import Billing, UsageRecord
from tests.benchmarks import pipeline_celery
from tests.benchmarks.document import write
from tests.benchmarks.pipeline_celery import CeleryUnavailableError
from tests.benchmarks.pipeline_goals import goals, markdown
from tests.benchmarks.pipeline_measure import FOLDER, Measured, Run, file_of
from tests.benchmarks.pipeline_peers import Ideal, Naive, OneEach, OneEachAio, race
from tests.benchmarks.pipeline_sluice import SluiceRun, sluice

OUTPUT = FOLDER / "pipeline.json"
DOCUMENT = ROOT / "docs" / "performance.md"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run."""

    whole: int
    each: int
    busy: int
    sizes: Sequence[int]
    runs: int


FULL = Scale(whole=400_000, each=1_000, busy=120_000, sizes=(10_000, 100_000, 1_000_000), runs=3)
QUICK = Scale(whole=100_000, each=200, busy=10_000, sizes=(10_000, 100_000), runs=1)


@dataclass(slots=True)
class Found:
    """Everything that was measured."""

    scale: Scale
    contenders: dict[str, Measured] = field(default_factory=dict)
    #: What could not be run, and why.
    absent: dict[str, str] = field(default_factory=dict)
    sizes: dict[int, list[SluiceRun]] = field(default_factory=dict)
    #: Of the runs of the whole job the middle one, by default and in chunks of 1,000.
    wholes: list[SluiceRun] = field(default_factory=list)
    loops: dict[str, float] = field(default_factory=dict)
    #: A workload that computes, by the number of worker processes.
    busy: dict[int, Measured] = field(default_factory=dict)

    def keep(self, *runs: Run) -> None:
        """Add one contender's runs, and say so."""
        who, measured = runs[0].who, Measured(runs)
        self.contenders[who] = measured
        print(f"{who}: {measured.spread(lambda run: run.rate)} a second", flush=True)  # noqa: T201 - commands print


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print, write; return 0 when every goal is reached."""
    found = Found(_scale(arguments))
    for part in (_loops, _sluice, _busy, _peers, _celery):
        part(found)
        # It takes many minutes: what was measured is kept when something stops it.
        _save(found)
    reached = goals(found.contenders, found.loops, found.sizes, found.busy, found.wholes)
    parts = [_about(found.scale), _goal_table(reached), _contender_table(found), _size_table(found)]
    parts += [_where(whole) for whole in found.wholes]
    tables = "\n\n".join(parts)
    print(tables)  # noqa: T201 - commands print
    _save(found, reached)
    write(DOCUMENT, "pipeline", tables)
    return 0 if all(is_met for *_, is_met in reached) else 1


def _scale(arguments: Sequence[str]) -> Scale:
    parser = argparse.ArgumentParser(prog="pipeline")
    parser.add_argument("--quick", action="store_true", help="everything once, and small")
    parser.add_argument("--runs", type=int, help="how often the short ones are run")
    options = parser.parse_args(arguments)
    scale = QUICK if options.quick else FULL
    return replace(scale, runs=options.runs or scale.runs)


def _loops(found: Found) -> None:
    """Measure what the work itself costs in a plain loop: as a person writes it, and with a typed decoder."""
    lines = file_of(100_000).read_bytes().splitlines()
    typed = msgspec.json.Decoder(UsageRecord).decode
    readers = {
        "json": lambda line: msgspec.convert(json.loads(line), UsageRecord),
        "msgspec": typed,
    }
    for name, read in readers.items():
        times = []
        for _ in range(3):
            began, billing, owed = time.process_time(), Billing(), {}
            for line in lines:
                account, currency, _, amount = billing.map(read(line), 0)
                owed[account, currency] = owed.get((account, currency), 0) + amount
            times.append((time.process_time() - began) / len(lines) * 1e6)
        found.loops[name] = median(times)


def _sluice(found: Found) -> None:
    scale = found.scale
    for chunk_items in (None, 1_000):
        with sluice(chunk_items) as running:
            running.run(10_000)  # the first job pays for imports and connections
            whole = [running.run(scale.whole) for _ in range(scale.runs)]
            found.keep(*(one.run for one in whole))
            found.wholes.append(sorted(whole, key=lambda one: one.run.seconds)[len(whole) // 2])
            for items in scale.sizes if chunk_items is None else ():
                found.sizes[items] = [running.run(items) for _ in range(scale.runs if items < scale.whole else 1)]


def _busy(found: Found) -> None:
    for instances in (1, 2):
        with sluice(500, instances=instances) as running:
            running.run(10_000)
            found.busy[instances] = Measured(
                tuple(running.run(found.scale.busy, "busy").run for _ in range(found.scale.runs))
            )


def _peers(found: Found) -> None:
    scale = found.scale
    for kind in (OneEach, OneEachAio, Naive, Ideal):
        items = scale.whole if kind is Ideal else scale.each
        found.keep(*(race(kind, items) for _ in range(scale.runs)))


def _celery(found: Found) -> None:
    scale = found.scale
    for items, chunk in ((scale.each, 0), (scale.whole, 1_000)):
        try:
            found.keep(*(pipeline_celery.run(items, chunk) for _ in range(scale.runs)))
        except CeleryUnavailableError as error:
            found.absent[pipeline_celery.name_of(chunk)] = str(error)


def _about(scale: Scale) -> str:
    load = os.getloadavg()[0]
    size = file_of(scale.whole).stat().st_size / scale.whole
    return (
        f"Jobs of {scale.whole:,} transactions of {size:.0f} bytes ({scale.each:,} for one message each), workload "
        f"`billing`; Python {platform.python_version()}, {os.cpu_count()} cores, Azurite in memory, load average "
        f"{load:.1f}; medians of {scale.runs} [least to most]. Requests are those of Azurite's own log, the host's "
        "polling included; CPU is that of all Python processes but the local broker."
    )


def _goal_table(reached: Sequence[tuple[str, str, bool]]) -> str:
    rows = [(goal, figure, "yes" if is_met else "NO") for goal, figure, is_met in reached]
    return markdown(("goal", "measured", ""), rows)


def _contender_table(found: Found) -> str:
    rows = [
        (
            who,
            f"{one.runs[0].items:,}",
            one.spread(lambda run: run.rate),
            f"{one.middle(lambda run: run.requests_each):.4f}",
            f"{one.middle(lambda run: run.cpu_each):,.1f}",
            f"{one.middle(lambda run: run.own_cpu_each):,.1f}",
        )
        for who, one in found.contenders.items()
    ]
    rows += [
        (f"plain loop, {name}", "100,000", "", "0", f"{cpu:.1f}", f"{cpu:.1f}") for name, cpu in found.loops.items()
    ]
    rows += [(who, "", f"not run: {why}", "", "", "") for who, why in found.absent.items()]
    return markdown(
        ("who", "transactions", "transactions/s", "requests each", "CPU µs each", "without the local host"), rows
    )


def _size_table(found: Found) -> str:
    rows = []
    for items, runs in found.sizes.items():
        one, last = Measured(tuple(run.run for run in runs)), runs[-1]
        peak = max(max(run.peaks.values()) for run in runs) / 2**20
        rows.append(
            (
                f"{items:,}",
                f"{one.middle(lambda run: run.seconds / run.items * 1e6):,.0f} ms",
                f"{one.middle(lambda run: run.requests_each) * 1000:.2f}",
                f"{sum(last.by_host.values()) / items * 1000:.2f}",
                f"{sum(last.job.requests.values()) / items * 1000:.2f}",
                f"{one.middle(lambda run: run.cpu_each):,.1f}",
                f"{peak:,.0f} MiB",
            )
        )
    heads = ("in one submission", "time per 1,000", "requests per 1,000", "of them the host's")
    return markdown((*heads, "of them counted on the job", "CPU µs each", "most memory of a process"), rows)


def _where(whole: SluiceRun) -> str:
    """Return where the time and the CPU of the whole job went."""
    job, seconds = whole.job, whole.run.seconds
    cores = seconds * (os.cpu_count() or 1)
    idle = cores - sum(whole.cpus.values())
    stretches = [(name, f"{took:.2f} s", f"{took / seconds:.0%}") for name, took in whole.stretches.items()]
    shares = [(f"CPU: {who}", f"{took:.2f} s", f"{took / cores:.0%}") for who, took in whole.cpus.items()]
    rest = ("CPU: everything else on this machine, and idle", f"{idle:.2f} s", f"{idle / cores:.0%}")
    head = (f"{job.items:,} in {job.chunks} chunks", "took", "of all")
    return markdown(head, [*stretches, *shares, rest])


def _save(found: Found, reached: Sequence[tuple[str, str, bool]] = ()) -> None:
    sizes = {items: [_plain(run) for run in runs] for items, runs in found.sizes.items()}
    raw = {who: one.raw() for who, one in found.contenders.items()}
    figures = {"contenders": raw, "absent": found.absent, "loops": found.loops, "sizes": sizes, "goals": reached}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(figures, indent=1))


def _plain(run: SluiceRun) -> dict[str, object]:
    figures = {"by_kind": run.by_kind, "by_host": run.by_host, "peaks": run.peaks, "publishing": run.publishing}
    return {"items": run.run.items, "seconds": run.run.seconds, "cpu": run.run.cpu, **figures}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
