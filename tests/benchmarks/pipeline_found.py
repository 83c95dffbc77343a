"""How much the pipeline's benchmark runs, and what it found."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.benchmarks.pipeline_bounds import Bounds
from tests.benchmarks.pipeline_measure import Measured, Run
from tests.benchmarks.pipeline_sluice import SluiceRun


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run."""

    whole: int
    each: int
    busy: int
    sizes: Sequence[int]
    #: Jobs of so many transactions with so many accounts.
    accounts: Sequence[tuple[int, int]]
    runs: int
    #: How often the whole job is run by everybody.
    turns: int


#: Transactions and accounts of the jobs that differ by their accounts.
ACCOUNTS_TRIED = ((400_000, 500), (400_000, 5_000), (400_000, 50_000), (1_000_000, 500), (1_000_000, 5_000))
FULL = Scale(
    whole=400_000,
    each=1_000,
    busy=240_000,
    sizes=(10_000, 100_000, 1_000_000),
    accounts=ACCOUNTS_TRIED,
    runs=3,
    turns=5,
)
QUICK = Scale(
    whole=100_000,
    each=200,
    busy=10_000,
    sizes=(10_000, 100_000),
    accounts=((100_000, 500), (100_000, 5_000)),
    runs=1,
    turns=1,
)


@dataclass(slots=True)
class Found:
    """Everything that was measured."""

    scale: Scale
    contenders: dict[str, Measured] = field(default_factory=dict)
    #: What could not be run, and why.
    absent: dict[str, str] = field(default_factory=dict)
    sizes: dict[int, list[SluiceRun]] = field(default_factory=dict)
    #: The runs of the whole job, by default and in chunks of 1,000, each from the shortest to the longest.
    wholes: list[list[SluiceRun]] = field(default_factory=list)
    loops: dict[str, float] = field(default_factory=dict)
    #: The default by how many transactions and accounts a job has.
    accounts: dict[tuple[int, int], list[SluiceRun]] = field(default_factory=dict)
    #: A workload that computes, by the number of worker processes.
    busy: dict[int, list[SluiceRun]] = field(default_factory=dict)
    bounds: Bounds | None = None

    def keep(self, *runs: Run) -> None:
        """Add one contender's runs, and say so."""
        who, measured = runs[0].who, Measured(runs)
        self.contenders[who] = measured
        print(f"{who}: {measured.spread(lambda run: run.rate)} a second", flush=True)  # noqa: T201 - commands print
