"""How many tasks may run, and why: rules that an operator writes, what the services bear, what the budget allows.

Reading order: `observation` (what is known), `rules` (what an operator wants), `governor` (what a service bears),
`decide` (the smallest of them, with its reason), `following` (how a process keeps to it), `tuning` (the tick's part).
"""
