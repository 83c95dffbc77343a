"""The pipeline end to end beside what else could do its work: `python -m tests.benchmarks.pipeline`.

Everything runs on this machine in one go, so that the ratios mean something. Writes its tables into
docs/appendix/performance.md and what it measured into .stack/bench/pipeline.json. `--quick` runs everything once and small,
`--runs N` sets how often the short ones are run.
"""

import argparse
import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from tests.benchmarks import pipeline_bounds, pipeline_celery, pipeline_loops
from tests.benchmarks.document import write
from tests.benchmarks.pipeline_celery import CeleryUnavailableError
from tests.benchmarks.pipeline_found import FULL, QUICK, Found, Scale
from tests.benchmarks.pipeline_goals import goals, markdown
from tests.benchmarks.pipeline_measure import FOLDER, Measured, Run, file_of, warm_up
from tests.benchmarks.pipeline_peers import Ideal, Naive, OneEach, OneEachAio, race
from tests.benchmarks.pipeline_sluice import SluiceRun, sluice
from tools.local.paths import ROOT

OUTPUT = FOLDER / "pipeline.json"
DOCUMENT = ROOT / "docs" / "appendix" / "performance.md"


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print, write; return 0 when every goal is reached."""
    found = Found(_scale(arguments))
    for part in (_turns, _sizes, _busy, _bounds, _small):
        part(found)
        # It takes many minutes: what was measured is kept when something stops it.
        _save(found)
    reached = goals(found)
    tables = (_contender_table(found), _size_table(found), _accounts_table(found), _bounds_table(found))
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


def _turns(found: Found) -> None:
    """Run the whole job by all who can bear it, by turns: the machine's speed changes within minutes.

    Everybody has new processes and the same warm-up in each turn.
    """
    scale, runs, wholes, loops = found.scale, defaultdict(list), defaultdict(list), defaultdict(list)
    for _ in range(scale.turns):
        for name, cpu in pipeline_loops.microseconds().items():
            loops[name].append(cpu)
        for chunk_items in (None, 1_000):
            with sluice(chunk_items) as running:
                running.run(warm_up(scale.whole))
                one = running.run(scale.whole)
                wholes[chunk_items].append(one)
                runs[one.run.who].append(one.run)
        runs[Ideal.who].append(race(Ideal, scale.whole))
        if run := _celery(found, scale.whole, 1_000):
            runs[run.who].append(run)
    for each in runs.values():
        found.keep(*each)
    found.wholes = [sorted(whole, key=lambda one: one.run.seconds) for whole in wholes.values()]
    found.loops = {name: median(cpus) for name, cpus in loops.items()}


def _sizes(found: Found) -> None:
    scale = found.scale
    with sluice(None) as running:
        running.run(warm_up(scale.whole))
        for _ in range(scale.runs):
            for items in scale.sizes:
                found.sizes.setdefault(items, []).append(running.run(items))
            for items, accounts in scale.accounts:
                found.accounts.setdefault((items, accounts), []).append(running.run(items, accounts=accounts))


def _busy(found: Found) -> None:
    for _ in range(found.scale.runs):
        for instances in (1, 2):
            with sluice(None, instances=instances) as running:
                running.run(warm_up(found.scale.busy))
                found.busy.setdefault(instances, []).append(running.run(found.scale.busy, "busy"))


def _bounds(found: Found) -> None:
    # Half of the computation each: as much as two worker processes share.
    found.bounds = pipeline_bounds.measure((500, 5_000), found.scale.busy // 2, found.scale.runs)


def _small(found: Found) -> None:
    """Run those who need a message for each transaction, on fewer of them."""
    scale = found.scale
    for kind in (OneEach, OneEachAio, Naive):
        found.keep(*(race(kind, scale.each) for _ in range(scale.runs)))
    if runs := [run for _ in range(scale.runs) if (run := _celery(found, scale.each, 0))]:
        found.keep(*runs)


def _celery(found: Found, items: int, chunk: int) -> Run | None:
    try:
        return pipeline_celery.run(items, chunk)
    except CeleryUnavailableError as error:
        found.absent[pipeline_celery.name_of(chunk)] = str(error)
        return None


def _about(scale: Scale) -> str:
    load = os.getloadavg()[0]
    size = file_of(scale.whole).stat().st_size / scale.whole
    return (
        f"Jobs of {scale.whole:,} transactions of {size:.0f} bytes ({scale.each:,} for one message each), workload "
        f"`billing`; Python {platform.python_version()}, {os.cpu_count()} cores, Azurite in memory, load average "
        f"{load:.1f}; medians of {scale.runs} [least to most], those of the whole job of {scale.turns}, by turns. "
        "Requests are those of Azurite's own log, the host's "
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
            f"{one.middle(lambda run: run.requests_each):.5f}",
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


def _bounds_table(found: Found) -> str:
    """Return what the goals that share cores and rows could be at most here."""
    assert found.bounds
    rows = []
    for items, accounts in found.accounts:
        few = found.accounts.get((items, 500))
        if accounts == 5_000 and few:
            alone = median(one.run.seconds for one in few)
            more = found.bounds.rows[accounts] - found.bounds.rows[500]
            what = f"{items:,} with 500 accounts, and the further rows of {accounts:,} written alone by the same writer"
            rows.append((what, f"{found.bounds.rows[accounts]:.2f} s for all rows", f"{alone / (alone + more):.2f}x"))
    rows.append(("two plain processes that compute, against one", "", f"{found.bounds.gain:.2f}x"))
    one, two = (sorted(runs, key=lambda run: run.run.seconds)[len(runs) // 2] for runs in found.busy.values())
    # One process reads the file, and the workers wait for its first chunks: no second worker makes this shorter.
    before = two.publishing + two.stretches["until its first hundred chunks were put"]
    spent, cores = sum(two.cpus.values()) - two.cpus["publisher"], os.cpu_count() or 1
    what = (
        f"a workload that computes: {before:.1f} s until the first chunks, then all processes of the run with two workers "
        f"on {cores} cores that never rest"
    )
    rows.append((what, f"{spent:.1f} s of CPU", f"{one.run.seconds / (before + spent / cores):.2f}x"))
    return markdown(("bound on this machine", "measured", "at most"), rows)


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
