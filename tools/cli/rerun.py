"""`sluice jobs rerun --dry-run`: what differs in chunks that run with the code of this folder."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shared.app import Stores, build_dry_runner
from shared.errors import CallsOutsideError, DryRunError, UnknownWorkloadError
from shared.grammar import minus, texts
from shared.ledger import Job, Portion
from shared.operating import (
    AccountChange,
    ChunkDifference,
    ChunkFailure,
    Counted,
    DryRun,
    LineSum,
    MissingResult,
    Sides,
    TotalsDifference,
)
from shared.settings import Settings
from shared.workloads import has_lines
from tools.cli.loaded import load_workloads
from tools.cli.options import WRONG_CALL, end
from tools.cli.screen import clean
from tools.cli.settings_file import add_app_to_path, load, load_connected

#: Differences of one kind that a person sees; JSON has more.
SHOWN: Final = 10
T = TypeVar("T")


def run_dry(  # noqa: PLR0913 - the options of the command
    stores: Stores,
    job: Job,
    settings: Path | None,
    *,
    chunks: str,
    workload: str | None,
    calls_outside: bool,
    is_shown: bool,
) -> DryRun:
    """Run chunks of the job, or end where that makes no sense."""
    environ = load_connected(settings)
    parsed = Settings.parse(environ)
    add_app_to_path(settings)
    known = load_workloads(parsed.workloads, environ)
    runner = build_dry_runner(stores, parsed)
    # Not in the main thread, which ends with a workload that exits.
    with ThreadPoolExecutor(1) as pool, _progress(job.job, is_shown=is_shown) as report:
        try:
            chosen = known.find(workload or job.workload)
            return pool.submit(runner.run, job, chosen, chunks, may_call=calls_outside, report=report).result()
        except (UnknownWorkloadError, CallsOutsideError) as error:
            end(str(error), WRONG_CALL)


def find_lines(job: Job, settings: Path | None) -> bool | None:
    """Return whether the workload of this folder makes lines, which is to be the deployed one. None: it is not here."""
    environ = load(settings)
    if not environ.get("SLUICE_WORKLOADS"):
        return None
    add_app_to_path(settings)
    known = load_workloads(environ["SLUICE_WORKLOADS"], environ)
    return has_lines(known.find(job.workload)) if job.workload in known else None


@contextmanager
def _progress(job: str, *, is_shown: bool) -> Iterator[Callable[[int, int], None]]:
    # On stderr, so that the output can be piped; nothing is drawn where there is no terminal.
    console, stopped = Console(stderr=True), Event()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_shown or not console.is_terminal) as bar:
        task = bar.add_task(f"chunks of {job}", total=None)

        def report(done: int, of: int) -> None:
            if stopped.is_set():
                raise DryRunError("it was stopped")
            bar.update(task, completed=done, total=of)

        try:
            yield report
        finally:
            stopped.set()


def in_words(run: DryRun) -> list[str]:
    """Return the findings of a dry run for a person."""
    accepted, rejected = (
        describe_sides(Sides(one.before.items, one.now.items)) for one in (run.accepted, run.rejected)
    )
    compared = (
        f"{run.compared:,} of {run.chunks:,} chunks ({run.transactions:,} transactions) of revision {run.revision}"
    )
    lines = [
        f"{compared}, {run.cpu_seconds:.1f} s CPU: accepted {accepted}, rejected {rejected}",
        *(f"{name} of {what}: {amount:+f}" for what, name, amount in _list_sums(run)),
        *_first(
            run.missing,
            "chunks without a result to compare with",
            lambda one: f"chunk {one.chunk}: {_why_missing(one)}",
        ),
        *_first(run.failures, "chunks that fail", _describe_failure),
        *_first(run.differing, "chunks that differ", lambda one: f"chunk {one.chunk}: {_describe_chunk(one)}"),
        *_first(
            run.rejections,
            "transactions that are rejected otherwise",
            lambda one: f"{one.number}: {one.before or 'accepted'} -> {one.now or 'accepted'}",
        ),
        *_first(
            run.lines,
            f"lines that are others, of {describe_sides(run.line_counts)}",
            lambda one: f"chunk {one.chunk}, line {one.place}: {one.before or 'none'} -> {one.now or 'none'}",
        ),
        *_describe_totals(run),
        "status 1: they differ" if run.differs else "nothing differs",
    ]
    return [clean(line).plain for line in lines]


def describe_sides(sides: Sides[int]) -> str:
    """Return two numbers."""
    return f"{sides.before:,} {'=' if sides.before == sides.now else '->'} {sides.now:,}"


def _list_sums(run: DryRun) -> Iterator[tuple[str, str, Any]]:
    for what, sides in (("accepted", run.accepted), ("rejected", run.rejected)):
        yield from ((what, name, amount) for name, amount in minus(sides.now.sums, sides.before.sums).items() if amount)


def _first(found: Counted[T], what: str, describe: Callable[[T], str]) -> Iterator[str]:
    """Yield a heading with the number of differences, and the first of them."""
    if not found.count:
        return
    yield f"{what}: {found.count:,}"
    yield from (f"  {describe(one)}" for one in found.first[:SHOWN])
    if found.count > SHOWN:
        yield "  …  more: --json"


def _why_missing(one: MissingResult) -> str:
    return "it has not ended" if one.parked is None else f"it is parked ({one.parked})"


def _describe_failure(one: ChunkFailure) -> str:
    whose = "" if one.number is None else f"transaction {one.number}: "
    # The others are Sluice's own.
    where = one.place.partition(" < ")[0]
    return f"chunk {one.chunk}: {whose}{one.found}{where and f' at {where}'}"


def _describe_chunk(one: ChunkDifference) -> str:
    accepted, rejected = (
        describe_sides(Sides(each.before.items, each.now.items)) for each in (one.accepted, one.rejected)
    )
    return f"accepted {accepted}, rejected {rejected}, {one.lines:,} other lines"


def _describe_totals(run: DryRun) -> Iterator[str]:
    if run.totals is None or run.output is None:
        yield "totals were not compared: chunks that fail are missing in them"
        return
    changes = run.totals.changes
    yield from describe_counts(run.totals)
    yield from (f"  {describe_account(one)}" for one in changes[:SHOWN])
    if len(changes) > SHOWN:
        yield "  …  all: --json"
    yield from _describe_output(run.output)


def describe_counts(totals: TotalsDifference) -> Iterator[str]:
    """Yield how many accounts differ, and by how much, if there are any."""
    found = f"{totals.equal:,} equal, {totals.differ:,} differ, {totals.new:,} new, {totals.gone:,} gone"
    amounts = ", ".join(f"{name} {amount:+f}" for name, amount in totals.amounts.items())
    if totals.equal or totals.changed:
        yield "; ".join(filter(None, (f"accounts {totals.equal + totals.changed:,}: {found}", amounts)))


def describe_account(one: AccountChange) -> str:
    """Return an account with its total before and now."""
    if one.before is None or one.now is None:
        side, properties = ("new", one.now) if one.before is None else ("gone", one.before)
        return f"{one.account} {side}: {_join(properties or {})}"
    before, now = one.before, one.now
    others = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return f"{one.account}  " + ", ".join(
        f"{name} {before.get(name, 'none')} -> {now.get(name, 'none')}" for name in others
    )


def _join(properties: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(properties.items()))


def _describe_output(output: Sides[LineSum]) -> Iterator[str]:
    is_same = output.now.is_same(output.before)
    if output.before.count or output.now.count:
        yield f"output lines {describe_sides(Sides(output.before.count, output.now.count))}, {'equal' if is_same else 'others'}"
    if is_same:
        return
    for sign, lines in (("-", output.before.list_missing(output.now)), ("+", output.now.list_missing(output.before))):
        yield from (f"  {sign} {line}" for line in lines[:SHOWN])


def run_document(run: DryRun) -> dict[str, Any]:
    """Return the findings of a dry run for a program."""
    return {
        "job": run.job,
        "revision": run.revision,
        "workload": run.workload,
        "differs": run.differs,
        "cpu_seconds": round(run.cpu_seconds, 3),
        "transactions": run.transactions,
        "chunks": {
            "all": run.chunks,
            "chosen": run.chosen,
            "compared": run.compared,
            "differ": run.differing.count,
            "fail": run.failures.count,
            "without_result": run.missing.count,
        },
        "accepted": portions_document(run.accepted),
        "rejected": portions_document(run.rejected),
        "differing": [
            {
                "chunk": one.chunk,
                "accepted": portions_document(one.accepted),
                "rejected": portions_document(one.rejected),
                "rejections": one.rejections,
                "lines": one.lines,
            }
            for one in run.differing.first
        ],
        "failures": [asdict(one) for one in run.failures.first],
        "missing": [asdict(one) for one in run.missing.first],
        "rejections": {"differ": run.rejections.count, "first": [asdict(one) for one in run.rejections.first]},
        "lines": {
            **run.line_counts._asdict(),
            "differ": run.lines.count,
            "first": [asdict(one) for one in run.lines.first],
        },
        "totals": None if run.totals is None else _totals_document(run, run.totals),
        "output": None if run.output is None else _output_document(run.output),
    }


def portions_document(sides: Sides[Portion]) -> dict[str, Any]:
    """Return two portions for a program."""
    return {name: {"items": one.items, "sums": texts(one.sums)} for name, one in sides._asdict().items()}


def _totals_document(run: DryRun, totals: TotalsDifference) -> dict[str, Any]:
    return {
        "stored": run.is_whole,
        "equal": totals.equal,
        "amounts": texts(totals.amounts),
        "accounts": [account_document(one) for one in totals.changes],
    }


def account_document(one: AccountChange) -> dict[str, Any]:
    """Return an account that differs for a program."""
    return {"account": one.account, "total_before": one.before, "total_now": one.now}


def _output_document(output: Sides[LineSum]) -> dict[str, Any]:
    return {
        "before": output.before.count,
        "now": output.now.count,
        "equal": output.now.is_same(output.before),
        "gone": output.before.list_missing(output.now),
        "new": output.now.list_missing(output.before),
    }
