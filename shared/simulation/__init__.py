"""What rules would have done with a day of work: a trace is replayed in virtual time, without a request.

`simulator` replays a trace, or a day that none was recorded of, by Sluice's own decisions under given rules. It counts
delays, requests and tasks.
"""

from shared.simulation.simulator import (
    SEED as SEED,
    SPAN as SPAN,
    Outcome as Outcome,
    Push as Push,
    Simulation as Simulation,
    Span as Span,
    bursty_day as bursty_day,
)
