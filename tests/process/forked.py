"""The child of a suspect in a forked process: a new one takes eight tenths of a second of CPU to begin."""

import faulthandler

from shared.pipeline.failing.alone_child import main
from tests.forked import Forked


def start(chunk, answered, said, noted, pipes):
    """Start a child, as `Alone` does."""
    kept = (noted.fileno(), chunk.fileno(), *pipes)
    files = {1: answered.fileno(), 2: said.fileno()} | {number: number for number in kept}
    return Forked(_answer, kept[:2], files)


def _answer(noted, chunk):
    faulthandler.enable(2)
    main(noted, chunk)
