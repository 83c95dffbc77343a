"""What rules would have done with a day of work: a trace is replayed in virtual time, without a request.

Reading order:

- `simulator`: replays a trace; counts delays, requests and tasks
- `simulated_push`: Sluice's own decisions and requests under given rules
- `synthetic`: a day that no trace was recorded of
"""

from shared.simulation.simulated_push import Push
from shared.simulation.simulator import SPAN, Outcome, Simulation, Span
from shared.simulation.synthetic import SEED, bursty_day

__all__ = ["SEED", "SPAN", "Outcome", "Push", "Simulation", "Span", "bursty_day"]
