"""`make prove`: say the price, ask, prove, write the page, remove. `--local` rehearses all of it on this machine."""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tools.local.errors import StackError
from tools.local.paths import ROOT, STACK, VENV
from tools.local.prove.acts import ACTS, Act
from tools.local.prove.page import Report, render
from tools.local.prove.price import price_of, price_of_work
from tools.local.prove.rehearsal import Cloud
from tools.local.prove.shell import InterruptedRunError, ProblemError, Shell
from tools.local.prove.site import Site
from tools.local.prove.steps import BY_KEY, REMOVE, Ended, choose_next, most_hours

PAGE = ROOT / "docs" / "appendix" / "azure-run.md"
FOLDER = STACK / "prove"
#: Seconds from one question to the same one again, where Azure needs minutes.
PAUSE, PAUSE_OF_A_REHEARSAL = 30.0, 0.2
WRONG, REFUSED, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str]) -> int:
    """Prove or rehearse. The status is 0 if every step went well."""
    options = _parse(arguments)
    stop = threading.Event()
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        return _rehearse(options, stop) if options.local else _prove(options, stop)
    except StackError as error:
        print(f"sluice prove: {error}", file=sys.stderr)
        return WRONG


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make prove", description=sys.modules[__name__].__doc__, allow_abbrev=False)
    parser.add_argument("--name", default="sluice-prove", help="of the environment; refused if it is there")
    parser.add_argument("--region", default="westeurope", help="one that has Flex Consumption, default %(default)s")
    parser.add_argument("--yes", action="store_true", help="do not ask after the price was said")
    parser.add_argument("--local", action="store_true", help="rehearse every step on this machine: costs nothing")
    return parser.parse_args(arguments)


def _heed_signals(stop: threading.Event) -> None:
    # Not before the question: there they end the command.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: _note_signal(stop))


def _note_signal(stop: threading.Event) -> None:
    # A closed terminal cannot be written to.
    if not stop.is_set() and sys.stderr.isatty():
        print("sluice prove: stopping; what was made is removed first", file=sys.stderr, flush=True)
    stop.set()


def _prove(options: argparse.Namespace, stop: threading.Event) -> int:
    hours = most_hours()
    most = price_of(hours) + price_of_work()
    print(
        f"This creates the environment {options.name} in Azure, in {options.region}, with a resource group of its own; "
        f"examines it, and removes it.\nIt takes {hours:.1f} hours at most and an hour most often. It costs "
        f"{most:.2f} USD at most, by the prices file (unverified), and less where the month's free amounts last.",
        flush=True,
    )
    if not options.yes and not _is_agreed():
        print("sluice prove: nothing was done")
        return REFUSED
    _heed_signals(stop)
    with _site(options, stop, [str(VENV / "bin")], ROOT / ".azure", PAUSE) as site:
        return conclude(site, stop, PAGE, is_rehearsal=False)


def _is_agreed() -> bool:
    try:
        return input("go on? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        # In a workflow no person types: it says --yes.
        return False


def _rehearse(options: argparse.Namespace, stop: threading.Event) -> int:
    _heed_signals(stop)
    with tempfile.TemporaryDirectory(prefix="sluice-prove-") as folder, Cloud(Path(folder)) as cloud:
        path = [str(cloud.programs), str(VENV / "bin")]
        with _site(options, stop, path, cloud.kept, PAUSE_OF_A_REHEARSAL) as site:
            status = conclude(site, stop, FOLDER / "rehearsal.md", is_rehearsal=True)
        if left := cloud.left():
            print(f"sluice prove: the stand-in still has {', '.join(left)}", file=sys.stderr)
            return WRONG
        return status


@contextmanager
def _site(
    options: argparse.Namespace, stop: threading.Event, path: Sequence[str], kept: Path, pause: float
) -> Iterator[Site]:
    log = FOLDER / "prove.log"
    log.touch(mode=0o600)
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix="sluice-prove-") as scratch:
        shell = Shell(path, ROOT, log, stop)
        yield Site(options.name, options.region, shell, kept, Path(scratch), pause)


def conclude(site: Site, stop: threading.Event, page: Path, *, is_rehearsal: bool) -> int:
    """Run the steps, write the page, say what failed. Return the status of the command."""
    began = datetime.now(UTC)
    ended = prove(site, stop, ACTS, time.monotonic)
    hours = sum(one.seconds for one in ended if _is_paid(one)) / 3600
    cost = price_of(hours) + price_of_work()
    report = Report(
        began, site.name, site.region, site.versions, ended, site.answers, hours, cost, is_rehearsal=is_rehearsal
    )
    if any(BY_KEY[one.key].makes for one in ended):
        page.write_text(render(report), encoding="utf-8")
        print(f"sluice prove: {os.path.relpath(page)} has every answer", flush=True)
    for one in report.failed:
        print(
            f"sluice prove: step {one.key} failed: {one.problem}\n    then: {BY_KEY[one.key].remedy}", file=sys.stderr
        )
    if report.failed:
        print(f"sluice prove: {(FOLDER / 'prove.log').relative_to(ROOT)} has what each program said", file=sys.stderr)
    if stop.is_set():
        return INTERRUPTED
    return 0 if report.is_right else WRONG


def _is_paid(one: Ended) -> bool:
    return one.key not in {"tools", "absent", "environment"}


def prove(site: Site, stop: threading.Event, acts: Mapping[str, Act], clock: Callable[[], float]) -> list[Ended]:
    """Do one step after the other, and remove everything in the end, also after a fault."""
    ended: list[Ended] = []
    while (step := choose_next(ended, is_interrupted=stop.is_set())) is not None:
        # Ctrl-C has stopped the examination by then, and stops the removal never.
        site.shell.begin(step.minutes, heeds_stop=step is not REMOVE)
        print(f"sluice prove: {step.key}: {step.what}", flush=True)
        began, said, problem = clock(), [], ""
        try:
            said = acts[step.key](site)
        except InterruptedRunError:
            problem = "it was interrupted"
        except ProblemError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, what was made must go
            problem = f"{type(error).__name__}: {error}"
        ended.append(Ended(step.key, clock() - began, tuple(said), problem))
        print(f"    {problem or '; '.join(said)}", flush=True)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
