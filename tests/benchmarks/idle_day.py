"""What a day without work costs: who asks storage for what while nothing happens, on the whole local stack.

`make bench ARGS="--only idle_day -- --minutes 60"` runs one always-on instance of the app for so long, with the
intervals of host.json and a tick a minute, and scales what Azurite logged to a day. The host's own requests are told
from the app's by the host's own count.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from functions_local_host.launcher import Host

from shared.azure.meter import RequestKind
from shared.usage import polling_seconds
from tests.benchmarks.document import write
from tests.benchmarks.request_log import kinds, read_from
from tools.local.paths import ROOT
from tools.local.stack import Stack, StackOptions, running

DOCUMENT = ROOT / "docs" / "appendix" / "idle.md"
DAY = 86_400
#: The host's back-off has reached its longest interval by then.
WARM_UP = 200.0
#: The host says its counts once a second.
SAYING = 1.5
#: Ours, and everything but the polls that the chosen interval decides.
MOST_OF_OURS, MOST_BUT_POLLS = 3_150, 15_120
#: How far what was counted in a while may be from the formula of the polls.
NEAR = 0.02
POLLING = "AzureFunctionsJobHost__extensions__queues__maxPollingInterval"
HOST_JSON = json.loads((ROOT / "host.json").read_text())


@dataclass(frozen=True, slots=True)
class Mode:
    """One way of taking chunks off their queues."""

    name: str
    setting: str
    #: The interval at which an idle queue is polled, as the host is told it.
    interval: str

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the host. In Development it would make two seconds of exactly one minute."""
        return {"SLUICE_DEQUEUE": self.setting, POLLING: self.interval, "AZURE_FUNCTIONS_ENVIRONMENT": "Staging"}


MODES = (
    Mode("queue triggers", "trigger", HOST_JSON["extensions"]["queues"]["maxPollingInterval"]),
    Mode("push", "push", HOST_JSON["extensions"]["queues"]["maxPollingInterval"]),
)
#: What was measured of each mode, so that the modes may be watched at different times.
FOLDER = ROOT / ".stack" / "bench"


@dataclass(frozen=True, slots=True)
class Idle:
    """What was asked in a while without work."""

    mode: str
    seconds: float
    host: Counter[str]
    app: Counter[str]

    def a_day(self, number: int) -> int:
        """Return how many a day that would be."""
        return round(number * DAY / self.seconds)

    def problems(self) -> list[str]:
        """Return which promises are broken."""
        polls = {what: self.a_day(number) for what, number in self.host.items() if what.startswith("poll ")}
        ours = self.a_day(self.app.total())
        others = self.a_day(self.app.total() + self.host.total()) - sum(polls.values())
        mode = next(one for one in MODES if one.name == self.mode)
        wanted = DAY / polling_seconds(HOST_JSON, mode.settings)
        far = {what: number for what, number in polls.items() if abs(number - wanted) > NEAR * wanted}
        work = [what for what in (*self.app, *polls) if "work-0" in what and "poison" not in what]
        return [
            *([f"{self.mode}: {ours:,} requests a day are ours"] if ours > MOST_OF_OURS else []),
            *([f"{self.mode}: {others:,} requests a day beside the polls"] if others > MOST_BUT_POLLS else []),
            *([f"{self.mode}: polls are {far}, and {wanted:,.0f} by their interval"] if far else []),
            *([f"{self.mode}: work queues are asked: {work}"] if self.mode == "push" and work else []),
        ]


@dataclass(frozen=True, slots=True)
class Reading:
    """How much was asked so far."""

    at: float
    logged: int
    host: Counter[tuple[str, str, str]]


def read(stack: Stack) -> Reading:
    """Return a reading during which the host asked for nothing, so that log and count are of the same moment."""
    assert isinstance(stack.host, Host), "only the project's own host counts its requests"
    while True:
        before = Counter(stack.host.requests())
        time.sleep(SAYING)
        reading = Reading(time.monotonic(), stack.azurite.log.stat().st_size, before)
        time.sleep(SAYING)
        if Counter(stack.host.requests()) == before:
            return reading


def between(stack: Stack, mode: Mode, first: Reading, last: Reading) -> Idle:
    """Return what was asked between two readings."""
    text = read_from(stack.azurite.log, first.logged)[: last.logged - first.logged]
    logged, by_host = kinds(text), last.host - first.host
    app = Counter({_what(kind): number for kind, number in logged.items() if not _is_of_host(kind, by_host)})
    host = Counter[str]()
    for (requester, service, _), number in by_host.items():
        host[f"{requester} ({service})"] += number
    if app.total() + host.total() != logged.total():
        raise AssertionError(f"the log has {logged.total()} requests, the host says {host}, which leaves {app}")
    return Idle(mode.name, last.at - first.at, host, app)


def _is_of_host(kind: RequestKind, by_host: Counter[tuple[str, str, str]]) -> bool:
    if kind.entity.startswith("azure-webjobs"):
        return True
    polled = {requester.removeprefix("poll ") for requester, _, _ in by_host}
    return kind.service == "queue" and kind.entity in polled


def _what(kind: RequestKind) -> str:
    return f"{kind.operation} {kind.entity}".strip()


def markdown(found: Sequence[Idle]) -> str:
    """Return the table of the documentation."""
    lines = [
        f"| who asks | {' | '.join(f'{one.mode}, requests a day' for one in found)} |",
        f"| --- |{' ---: |' * len(found)}",
    ]
    for part, title in (("app", "the app"), ("host", "the host")):
        names = sorted({name for one in found for name in getattr(one, part)})
        for name in names:
            numbers = (f"{one.a_day(getattr(one, part)[name]):,}" for one in found)
            lines.append(f"| {title}: {name} | {' | '.join(numbers)} |")
        totals = (f"**{one.a_day(getattr(one, part).total()):,}**" for one in found)
        lines.append(f"| **{title} in all** | {' | '.join(totals)} |")
    everything = (f"**{one.a_day(one.app.total() + one.host.total()):,}**" for one in found)
    lines.append(f"| **everything** | {' | '.join(everything)} |")
    seconds = ", ".join(f"{one.seconds / 60:.1f} minutes ({one.mode})" for one in found)
    return "\n".join([*lines, "", f"Measured for {seconds}, after {WARM_UP:g} s for the host's intervals to grow."])


def measure(mode: Mode, minutes: float) -> Idle:
    """Run the stack and return what it asked for."""
    with running(StackOptions(instances=1, counts_requests=True, settings=mode.settings)) as stack:
        time.sleep(WARM_UP)
        first = read(stack)
        time.sleep(max(0.0, first.at + minutes * 60 - time.monotonic()))
        return between(stack, mode, first, read(stack))


def main(arguments: Sequence[str] = ()) -> int:
    """Measure every mode, put the table into docs/appendix/idle.md, and say which promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="how long each mode is watched; whole quarters of an hour"
    )
    parser.add_argument("--mode", action="append", choices=[mode.setting for mode in MODES])
    options, _ = parser.parse_known_args(arguments)
    wanted = [mode for mode in MODES if mode.setting in (options.mode or [mode.setting for mode in MODES])]
    # Side by side, each on a stack of its own: an idle one leaves the machine to the others.
    with ThreadPoolExecutor(len(wanted)) as pool:
        for mode, idle in zip(wanted, pool.map(lambda mode: measure(mode, options.minutes), wanted), strict=True):
            keep(mode, idle)
    found = [kept(mode) for mode in MODES if place_of(mode).exists()]
    table = markdown(found)
    problems = [problem for one in found for problem in one.problems()]
    sys.stdout.write("\n".join([table, *problems, ""]))
    write(DOCUMENT, "idle_day", table)
    return bool(problems)


def place_of(mode: Mode) -> Path:
    """Return where a measurement is kept."""
    return FOLDER / f"idle-day-{mode.setting}.json"


def keep(mode: Mode, idle: Idle) -> None:
    """Keep a measurement."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    said = {"mode": idle.mode, "seconds": idle.seconds, "host": idle.host, "app": idle.app}
    place_of(mode).write_text(json.dumps(said))


def kept(mode: Mode) -> Idle:
    """Return a measurement that was kept."""
    said = json.loads(place_of(mode).read_text())
    return Idle(said["mode"], said["seconds"], Counter(said["host"]), Counter(said["app"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
