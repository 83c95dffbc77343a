"""One process of waiters for the gate's benchmark: each waits for one epoch after the other and prints its receipts."""

import json
import random
import sys
import threading
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from shared.azure.connections import Connections
from shared.waiting.release import Listener, Release


@dataclass(frozen=True)
class Shift:
    """What one process does."""

    storage: str
    bus: str
    gate: str
    waiters: int
    #: When each epoch is opened, in seconds since 1970.
    openings: tuple[float, ...]
    #: Each wait begins this much before or after its opening, at most.
    spread: float
    #: The share of pushes that get lost.
    dropped: float
    seed: int

    @classmethod
    def parse(cls, text: str) -> "Shift":
        """Return the shift that the parent wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "openings": tuple(fields["openings"])})

    def text(self) -> str:
        """Return what `parse` reads."""
        return json.dumps(asdict(self))


def lose_pushes(share: float, rng: random.Random) -> None:
    """Let the listener of this process miss a share of what it hears."""
    ring = Listener._ring

    def ring_or_not(listener: Listener, gate: str) -> None:
        heard = sys._getframe(1).f_code.co_name == "_hear"
        if not heard or rng.random() >= share:
            ring(listener, gate)

    Listener._ring = ring_or_not  # type: ignore[method-assign]  # the fault that is injected


def serve(shift: Shift) -> None:
    """Run every waiter to its last epoch."""
    lose_pushes(shift.dropped, random.Random(shift.seed))
    printing = threading.Lock()
    with Connections(shift.storage, shift.bus or None) as connections, Release(connections, shift.gate) as keeps:
        threads = [
            threading.Thread(target=_wait_for_all, args=(shift, connections, number, printing))
            for number in range(shift.waiters)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.stdout.write(json.dumps({"mode": keeps.mode, "problem": keeps.problem}) + "\n")


def _wait_for_all(shift: Shift, connections: Connections, number: int, printing: threading.Lock) -> None:
    rng = random.Random(shift.seed * 1000 + number)
    with Release(connections, shift.gate, served=0) as release:
        while (release.served or 0) < len(shift.openings):
            opening = shift.openings[release.served or 0]
            time.sleep(max(0.0, opening + rng.uniform(-shift.spread, shift.spread) - time.time()))
            began = datetime.now(UTC)
            receipt = release.wait(60)
            # Who began after the opening is late from its own beginning on.
            late = min(receipt.lag, receipt.seen_at - began)
            line = {"waiter": f"{shift.seed}-{number}", "epoch": receipt.epoch, "how": receipt.how.value}
            with printing:
                sys.stdout.write(
                    json.dumps({**line, "late": late.total_seconds(), "seen": receipt.seen_at.timestamp()}) + "\n"
                )


if __name__ == "__main__":
    serve(Shift.parse(sys.argv[1]))
