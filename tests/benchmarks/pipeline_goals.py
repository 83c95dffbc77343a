"""The pipeline's goals as ratios of what one run measured."""

from collections.abc import Iterable, Mapping, Sequence

from tests.benchmarks.pipeline_measure import Measured, Run
from tests.benchmarks.pipeline_peers import Ideal, Naive
from tests.benchmarks.pipeline_sluice import SluiceRun

MOST_MEMORY = 256 * 2**20
#: How far the sizes may be apart and still count as flat.
FLAT = 0.15
_MIB = 2**20


def rate(run: Run) -> float:
    """Return transactions a second."""
    return run.rate


def goals(
    found: Mapping[str, Measured],
    loops: Mapping[str, float],
    sizes: Mapping[int, Sequence[SluiceRun]],
    busy: Mapping[int, Measured],
    whole: int,
) -> list[tuple[str, str, bool]]:
    """Return each goal, what was measured, and whether it was reached."""
    ours = found["Sluice, chunks of 1,000"]
    return [
        *_against(ours, found, whole),
        *_requests(found),
        *_cpu(sizes, loops),
        *_scaling(busy),
        *_flat(sizes),
        _memory(sizes),
    ]


def _against(ours: Measured, found: Mapping[str, Measured], whole: int) -> Iterable[tuple[str, str, bool]]:
    for who, least in ((Naive.who, 150.0), ("Celery, chunks of 1,000", 1.5), (Ideal.who, 0.4)):
        if who in found:
            ratio = ours.middle(rate) / found[who].middle(rate)
            yield f"{whole:,} in one job against {who}: at least {least:g}x", f"{ratio:.2f}x", ratio >= least


def _requests(found: Mapping[str, Measured]) -> Iterable[tuple[str, str, bool]]:
    for chunk, most in (("1,000", 0.007), ("4,000", 0.003)):
        each = found[f"Sluice, chunks of {chunk}"].middle(lambda run: run.requests_each)
        yield f"storage requests a transaction, chunks of {chunk}: at most {most}", f"{each:.4f}", each <= most


def _cpu(sizes: Mapping[int, Sequence[SluiceRun]], loops: Mapping[str, float]) -> Iterable[tuple[str, str, bool]]:
    largest = max(sizes)
    measured = Measured(tuple(run.run for run in sizes[largest]))
    own, whole = measured.middle(lambda run: run.own_cpu_each), measured.middle(lambda run: run.cpu_each)
    ratio = own / loops["json"]
    yield (
        f"CPU of publisher and app a transaction, {largest:,} in one submission, against the `json` loop: at most 3x",
        f"{ratio:.1f}x ({own / loops['msgspec']:.1f}x the msgspec loop; {whole / loops['json']:.1f}x with the local host)",
        ratio <= 3,
    )


def _scaling(busy: Mapping[int, Measured]) -> Iterable[tuple[str, str, bool]]:
    if busy:
        ratio = busy[2].middle(rate) / busy[1].middle(rate)
        yield "two worker processes against one, a workload that computes: at least 1.6x", f"{ratio:.2f}x", ratio >= 1.6


def _flat(sizes: Mapping[int, Sequence[SluiceRun]]) -> Iterable[tuple[str, str, bool]]:
    figures = {
        "time": lambda run: run.seconds / run.items,
        "requests": lambda run: run.requests_each,
    }
    for name, figure in figures.items():
        values = [Measured(tuple(run.run for run in runs)).middle(figure) for runs in sizes.values()]
        grown = values[-1] / values[0]
        text = ", ".join(f"{value * 1e6 if name == 'time' else value * 1000:.2f}" for value in values)
        yield (
            f"{name} per 1,000 does not grow from {min(sizes):,} to {max(sizes):,}: at most {1 + FLAT:g}x",
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
