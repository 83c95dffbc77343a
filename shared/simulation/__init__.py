"""What rules would have done with a day of work: a trace is replayed in virtual time, without a request.

`simulator` replays a trace, or a day that none was recorded of, by Sluice's own decisions under given rules. It counts
delays, requests and tasks.
"""

from shared.simulation.simulator import SEED, SPAN, Outcome, Push, Simulation, Span, bursty_day

__all__ = ["SEED", "SPAN", "Outcome", "Push", "Simulation", "Span", "bursty_day"]
