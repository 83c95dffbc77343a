"""The pipeline's goals as ratios of what one run measured."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from tests.benchmarks.pipeline_found import Found
from tests.benchmarks.pipeline_measure import Measured, Run
from tests.benchmarks.pipeline_peers import Ideal, Naive
from tests.benchmarks.pipeline_sluice import SluiceRun

DEFAULT, SMALL_CHUNKS = "Sluice, default", "Sluice, chunks of 1,000"
CELERY = "Celery, chunks of 1,000"
#: Who is compared with whom, and at least how much faster we want to be.
AGAINST = (
    (DEFAULT, Naive.who, 150.0),
    (DEFAULT, CELERY, 1.8),
    (SMALL_CHUNKS, CELERY, 0.9),
    (DEFAULT, Ideal.who, 1.15),
)
MOST_MEMORY = 256 * 2**20
#: Microseconds of CPU of the publisher for a transaction, and the share of a job's time that its finish may take.
_PUBLISHER, _FINISHING = 0.45, 0.08
#: How far the sizes may be apart and still count as flat.
FLAT = 0.15
_MIB = 2**20


def rate(run: Run) -> float:
    """Return transactions a second."""
    return run.rate


def goals(found: Found) -> list[tuple[str, str, bool]]:
    """Return each goal, what was measured, and whether it was reached."""
    contenders = found.contenders
    return [
        *_against(contenders, found.scale.whole),
        *_requests(contenders, found.sizes),
        *_cpu(contenders[DEFAULT], found.loops),
        *_publishing(found.wholes[0]),
        *_finishing(found.wholes),
        *_finishing_in_use(found.accounts, found.scale.whole),
        *_accounts(found.accounts),
        *_scaling(found.busy),
        *_flat(found.sizes),
        _memory(found.sizes),
    ]


def _against(found: Mapping[str, Measured], whole: int) -> Iterable[tuple[str, str, bool]]:
    for ours, who, least in AGAINST:
        if who in found:
            ratio = found[ours].middle(rate) / found[who].middle(rate)
            yield f"{whole:,} in one job, {ours} against {who}: at least {least:g}x", f"{ratio:.2f}x", ratio >= least


def _requests(
    found: Mapping[str, Measured], sizes: Mapping[int, Sequence[SluiceRun]]
) -> Iterable[tuple[str, str, bool]]:
    largest = max(sizes)
    measured = {
        SMALL_CHUNKS: (found[SMALL_CHUNKS], 0.0031),
        DEFAULT: (found[DEFAULT], 0.0010),
        f"{DEFAULT}, {largest:,} in one job": (Measured(tuple(run.run for run in sizes[largest])), 0.0007),
    }
    for who, (runs, most) in measured.items():
        each = runs.middle(lambda run: run.requests_each)
        yield f"storage requests a transaction, {who}: at most {most}", f"{each:.5f}", each <= most


def _cpu(measured: Measured, loops: Mapping[str, float]) -> Iterable[tuple[str, str, bool]]:
    own, whole = measured.middle(lambda run: run.own_cpu_each), measured.middle(lambda run: run.cpu_each)
    ratio = own / loops["json"]
    yield (
        f"CPU of publisher and app a transaction, {DEFAULT}, against the `json` loop: at most 2.3x",
        f"{ratio:.1f}x ({own / loops['msgspec']:.1f}x the msgspec loop; {whole / loops['json']:.1f}x with the local host)",
        ratio <= 2.3,
    )


def _publishing(whole: Sequence[SluiceRun]) -> Iterable[tuple[str, str, bool]]:
    each = median(run.cpus["publisher"] / run.run.items for run in whole) * 1e6
    yield f"CPU of the publisher a transaction, {DEFAULT}: at most 0.45 µs", f"{each:.2f} µs", each <= _PUBLISHER


def _finishing(wholes: Sequence[Sequence[SluiceRun]]) -> Iterable[tuple[str, str, bool]]:
    for whole, most in zip(wholes, (0.08, 0.10), strict=True):
        share = median(map(_share, whole))
        who = f"{whole[0].run.who}, the second job of new processes"
        yield f"finishing, of a job's time, {who}: at most {most:.0%}", f"{share:.1%}", share <= most


def _finishing_in_use(
    found: Mapping[tuple[int, int], Sequence[SluiceRun]], whole: int
) -> Iterable[tuple[str, str, bool]]:
    if runs := found.get((whole, 500)):
        share = median(map(_share, runs))
        yield (
            f"finishing, of a job's time, {DEFAULT}, processes in use: at most 8%",
            f"{share:.1%}",
            share <= _FINISHING,
        )


def _share(run: SluiceRun) -> float:
    return run.stretches["finishing"] / run.run.seconds


def _accounts(found: Mapping[tuple[int, int], Sequence[SluiceRun]]) -> Iterable[tuple[str, str, bool]]:
    for items, least in ((400_000, 0.6), (1_000_000, 0.8)):
        if (items, 500) in found and (items, 5_000) in found:
            few, many = (
                Measured(tuple(run.run for run in found[items, number])).middle(rate) for number in (500, 5_000)
            )
            yield (
                f"5,000 accounts against 500, {items:,} in one job: at least {least:g}x",
                f"{many / few:.2f}x",
                (many / few >= least),
            )


def _scaling(busy: Mapping[int, Sequence[SluiceRun]]) -> Iterable[tuple[str, str, bool]]:
    if busy:
        one, two = (median(run.run.rate for run in busy[number]) for number in (1, 2))
        ratio = two / one
        yield "two worker processes against one, a workload that computes: at least 1.8x", f"{ratio:.2f}x", ratio >= 1.8


def _flat(sizes: Mapping[int, Sequence[SluiceRun]]) -> Iterable[tuple[str, str, bool]]:
    figures = {
        "time": lambda run: run.seconds / run.items,
        "requests": lambda run: run.requests_each,
    }
    for name, figure in figures.items():
        # A small job pays for its waits alone: flat means from the second size on.
        values = [Measured(tuple(run.run for run in runs)).middle(figure) for runs in list(sizes.values())[1:]]
        grown = values[-1] / values[0]
        text = ", ".join(f"{value * 1e6 if name == 'time' else value * 1000:.2f}" for value in values)
        yield (
            f"{name} per 1,000 does not grow from {sorted(sizes)[1]:,} to {max(sizes):,}: at most {1 + FLAT:g}x",
            f"{grown:.2f}x ({text}{' ms' if name == 'time' else ''})",
            grown <= 1 + FLAT,
        )


def _memory(sizes: Mapping[int, Sequence[SluiceRun]]) -> tuple[str, str, bool]:
    peak = max(peak for runs in sizes.values() for run in runs for peak in run.peaks.values())
    return "memory of any process: under 256 MiB", f"{peak / _MIB:,.0f} MiB", peak < MOST_MEMORY


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
