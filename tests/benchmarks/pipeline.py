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
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from local.paths import ROOT
from tests.benchmarks import pipeline_celery, pipeline_loops
from tests.benchmarks.document import write
from tests.benchmarks.pipeline_celery import CeleryUnavailableError
from tests.benchmarks.pipeline_found import FULL, QUICK, Found, Scale
from tests.benchmarks.pipeline_goals import goals, markdown
from tests.benchmarks.pipeline_measure import FOLDER, Measured, file_of, warm_up
from tests.benchmarks.pipeline_peers import Ideal, Naive, OneEach, OneEachAio, race
from tests.benchmarks.pipeline_sluice import SluiceRun, sluice

OUTPUT = FOLDER / "pipeline.json"
DOCUMENT = ROOT / "docs" / "performance.md"


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print, write; return 0 when every goal is reached."""
    found = Found(_scale(arguments))
    for part in (_loops, _sluice, _busy, _peers, _celery):
        part(found)
        # It takes many minutes: what was measured is kept when something stops it.
        _save(found)
    reached = goals(found)
    tables = (_contender_table(found), _size_table(found), _accounts_table(found))
    parts = [_about(found.scale), _goal_table(reached), *tables]
    parts += [_where(whole[len(whole) // 2]) for whole in found.wholes]
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
    found.loops = pipeline_loops.microseconds()


def _sluice(found: Found) -> None:
    scale = found.scale
    for chunk_items in (None, 1_000):
        with sluice(chunk_items) as running:
            running.run(warm_up(scale.whole))  # the first job pays for imports and connections
            whole = [running.run(scale.whole) for _ in range(scale.runs)]
            found.keep(*(one.run for one in whole))
            found.wholes.append(sorted(whole, key=lambda one: one.run.seconds))
            for items in scale.sizes if chunk_items is None else ():
                found.sizes[items] = [running.run(items) for _ in range(scale.runs)]
            # By turns, because the machine's speed changes within minutes.
            for _ in range(scale.runs if chunk_items is None else 0):
                for items, accounts in scale.accounts:
                    found.accounts.setdefault((items, accounts), []).append(running.run(items, accounts=accounts))


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


def _accounts_table(found: Found) -> str:
    rows = []
    for (items, accounts), runs in found.accounts.items():
        one = Measured(tuple(run.run for run in runs))
        share = median(run.stretches["finishing"] / run.run.seconds for run in runs)
        rate = one.spread(lambda run: run.rate)
        rows.append(
            (f"{items:,}", f"{accounts:,}", rate, f"{share:.0%}", f"{one.middle(lambda run: run.requests):,.0f}")
        )
    heads = ("in one submission", "accounts", "transactions/s", "finishing, of the time", "storage requests")
    return markdown(heads, rows)


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
