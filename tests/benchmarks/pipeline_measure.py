"""What the pipeline's benchmark measures with: the file of transactions, Azurite's own log, and /proc."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tools.local.azurite.launcher import Azurite

#: Accounts of a file, where nothing else is said.
ACCOUNTS = 500
PLANS = ("basic", "standard", "premium")
FOLDER = Path(".stack/bench")
_TICKS = os.sysconf("SC_CLK_TCK")
_REQUEST = re.compile(rb'"([A-Z]+) /[^/ ]+/([^/?" ]*)([^" ]*)')


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of one contender took."""

    who: str
    items: int
    seconds: float
    #: Every request that Azurite answered from the start to the end, except those of the benchmark's own looking.
    requests: int
    #: CPU seconds of every process but Azurite and the local broker.
    cpu: float
    #: Of these, what the local host took, whose place on Azure another program has.
    host_cpu: float = 0.0

    @property
    def rate(self) -> float:
        """Transactions a second."""
        return self.items / self.seconds

    @property
    def requests_each(self) -> float:
        """Storage requests a transaction."""
        return self.requests / self.items

    @property
    def cpu_each(self) -> float:
        """Microseconds of CPU a transaction."""
        return self.cpu / self.items * 1e6

    @property
    def own_cpu_each(self) -> float:
        """Microseconds of CPU a transaction without those of the local host."""
        return (self.cpu - self.host_cpu) / self.items * 1e6


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of one contender."""

    runs: tuple[Run, ...]

    def middle(self, figure: Callable[[Run], float]) -> float:
        """Return the median of a figure."""
        return median(map(figure, self.runs))

    def spread(self, figure: Callable[[Run], float]) -> str:
        """Return the median, and the least and the most where there are several runs."""
        values = sorted(map(figure, self.runs))
        text = f"{median(values):,.0f}"
        return text if len(values) == 1 else f"{text} [{values[0]:,.0f} to {values[-1]:,.0f}]"

    def raw(self) -> list[dict[str, object]]:
        """Return it as plain data."""
        return [asdict(run) for run in self.runs]


def warm_up(items: int) -> int:
    """Return how many transactions each contender processes before it is measured: a tenth, at most 10,000."""
    return min(items // 10, 10_000)


def transactions(items: int, accounts: int = ACCOUNTS) -> Iterator[bytes]:
    """Yield so many lines of usage, about 190 bytes each."""
    for number in range(items):
        mixed = number * 2_654_435_761 % 4_294_967_296
        yield (
            f'{{"id":"usage-{number:010}-{mixed:08x}","account":"account-{mixed % accounts:06}",'
            f'"plan":"{PLANS[mixed % 3]}","meter":"{("api-calls", "storage-gb-hours", "egress-gb")[mixed % 7 % 3]}",'
            f'"quantity":"{mixed % 100_000 / 100 + 0.01:.2f}","unit":"each",'
            f'"at":"2026-11-{mixed % 28 + 1:02}T{mixed % 24:02}:{mixed % 60:02}:00Z"}}'
        ).encode()


def total_of(items: int) -> str:
    """Return the sum of the quantities of so many lines, as the system knows it that wrote them."""
    cents = sum(number * 2_654_435_761 % 4_294_967_296 % 100_000 + 1 for number in range(items))
    return f"{cents // 100}.{cents % 100:02}"


def file_of(items: int, accounts: int = ACCOUNTS) -> Path:
    """Return the file with so many transactions, made at its first use."""
    path = FOLDER / f"usage-{items}-{accounts}.ndjson"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(line + b"\n" for line in transactions(items, accounts))
    return path


class RequestLog:
    """Counts what Azurite was asked since a moment, by its own log."""

    def __init__(self, azurite: Azurite) -> None:
        self._log, self._from = azurite.log, azurite.log.stat().st_size

    def by_kind(self) -> Counter[str]:
        """Return the requests since then, by method and what was asked for."""
        with self._log.open("rb") as file:
            file.seek(self._from)
            return Counter(f"{m.decode()} {_kind(name, rest)}" for m, name, rest in _REQUEST.findall(file.read()))

    def total(self) -> int:
        """Return how many requests there were since then."""
        return self.by_kind().total()


def _kind(name: bytes, rest: bytes) -> str:
    # A table is followed by its key in brackets, a queue by /messages, anything else is a container.
    plain = name.split(b"(")[0].decode()
    return f"{plain} messages" if rest.startswith(b"/messages") else plain


def cpu_of(pids: Iterable[int]) -> float:
    """Return the CPU seconds of running processes so far, of their ended children too."""
    return sum(_cpu_of(pid) for pid in pids)


def main_thread_cpu_of(pids: Iterable[int]) -> float:
    """Return the CPU seconds of the main threads: in an instance of the local host they serve, and others run the app."""
    return sum(_cpu_of(f"{pid}/task/{pid}") for pid in pids)


def _cpu_of(process: int | str) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / _TICKS


def peak_of(pid: int) -> int:
    """Return the most memory that a running process had so far, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024
