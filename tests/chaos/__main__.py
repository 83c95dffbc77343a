"""`python -m tests.chaos`: treats the running app badly, and writes down what came of it."""

import argparse
import platform
import sys
import tempfile
import time

from tests.benchmarks import document
from tests.chaos import scenes
from tests.chaos.corpus import sendable
from tests.chaos.stack import running
from tools.local.docs import markdown
from tools.local.paths import ROOT

DOCUMENT = ROOT / "docs" / "appendix" / "chaos.md"


def main(arguments=None):
    """Run what was asked for; the status says whether anything was found that should not be."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(words)
    shortened = [word for word in words if word not in {*SCENES, "--dry"}]
    is_bad = False
    for name in options.scenes or SCENES:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="sluice-chaos-") as folder:
            rows = SCENES[name](folder, options)
        table = markdown(("what", "how many", "result"), [row.cells() for row in rows])
        size = f"Shortened: `{' '.join(shortened)}`; " if shortened else ""
        said = f"{size}{time.monotonic() - began:.0f} s on Python {platform.python_version()}, {platform.machine()}."
        sys.stdout.write(f"{table}\n\n{said}\n\n")
        is_bad = is_bad or any(row.found for row in rows)
        if not options.dry:
            document.write(DOCUMENT, name, f"{table}\n\n{said}", maker="python -m tests.chaos")
    return 1 if is_bad else 0


def _kills(folder, options):
    return scenes.kills(folder, least=options.kills, items=options.items)


def _losses(folder, options):
    with running(folder, instances=2) as stack:
        return scenes.losses(stack, items=options.items)


def _outages(folder, options):
    away = {"bus_seconds": options.bus_seconds, "storage_seconds": options.storage_seconds}
    with running(folder, instances=2) as stack:
        return scenes.outages(stack, items=options.items, **away)


def _submissions(folder, _):
    with running(folder, instances=2) as stack:
        return [*scenes.collisions(stack), *scenes.hostile(stack, sendable())]


SCENES = {"kills": _kills, "losses": _losses, "outages": _outages, "submissions": _submissions}


def _parser():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("scenes", nargs="*", choices=[*SCENES, []], help="what to run; all of it if nothing is named")
    parser.add_argument("--kills", type=int, default=150, help="at least, two seconds apart")
    parser.add_argument("--items", type=int, default=10_000, help="transactions of a job")
    parser.add_argument("--bus-seconds", type=int, default=600, help="how long `results` is away")
    parser.add_argument("--storage-seconds", type=int, default=60, help="how long storage answers 503")
    parser.add_argument("--dry", action="store_true", help="leave docs/appendix/chaos.md as it is")
    return parser


if __name__ == "__main__":
    sys.exit(main())
