"""`make demo`: starts the whole stack, shows what Sluice does, and stops everything."""

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from shared.azure import Connections
from shared.capability import CAPABILITIES, builtin_names, find
from shared.errors import SluiceError
from tools.cli.doctor import Finding, examine
from tools.local import demo_jobs
from tools.local.demo_gate import held_work_is_released
from tools.local.errors import StackError
from tools.local.stack import Stack, StackOptions, running

console = Console()


def main() -> int:
    """Run the demonstration. A step that fails ends it with one line."""
    began = time.monotonic()
    # The terminal was closed: everything is stopped as after Ctrl-C.
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    shown = [one for one in map(find, builtin_names()) if one.capability.demo]
    options = StackOptions(instances=2, settings={CAPABILITIES: ",".join(one.said for one in shown)})
    try:
        with running(options) as stack:
            console.print(f"[bold]Sluice[/bold] runs at {stack.host.base_url} after {time.monotonic() - began:.1f} s")
            _step("every queue, container, table and bus entity answers", lambda: _everything_answers(stack))
            _step("the app answers over HTTP", lambda: _the_app_answers(stack))
            _step("a gate holds work and releases it at once", lambda: held_work_is_released(stack))
            demo_jobs.run(stack, console)
            with Connections.parse(stack.settings) as connections:
                for one in shown:
                    one.load(one.capability.demo)(stack.host.base_url, connections, console.print)
        console.print("everything stopped; `make up` leaves it running for you, and `sluice web` shows it in a browser")
    except (StackError, SluiceError) as error:
        if os.environ.get("SLUICE_TRACEBACK"):
            raise
        print(f"sluice demo: {error}", file=sys.stderr)
        return 1
    return 0


def _step(promise: str, show: Callable[[], str]) -> None:
    began = time.monotonic()
    shown = show()
    console.print(f"[green]✓[/green] {promise} ({time.monotonic() - began:.1f} s): {shown}")


def _everything_answers(stack: Stack) -> str:
    findings = list(examine(stack.settings))
    problems = [finding for finding in findings if finding.problem]
    console.print(_summary(findings))
    if problems:
        raise StackError("; ".join(f"{finding.kind} {finding.name} {finding.problem}" for finding in problems))
    return f"{len(findings)} looked at"


def _summary(findings: list[Finding]) -> Table:
    table = Table("kind", "entities")
    for kind in dict.fromkeys(finding.kind for finding in findings):
        table.add_row(kind, ", ".join(finding.name for finding in findings if finding.kind == kind))
    return table


def _the_app_answers(stack: Stack) -> str:
    with urllib.request.urlopen(f"{stack.host.base_url}/api/health", timeout=30) as reply:  # noqa: S310 - our own http address
        return f"GET /api/health says {json.loads(reply.read())}"


if __name__ == "__main__":
    sys.exit(main())
