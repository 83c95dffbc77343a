"""Work that must not start before an event, and must start at once everywhere when it comes.

Reading order: `decisions` (what a gate decides, pure), `state` (its blob), `gates` (one conditional write), `held_work`
(hold and dispatch), `gate_tick`, `operator`, then for worker processes `flag`, `watch`, `listening`, `release`.
"""
