"""Estimates for `sluice tune` and `sluice cost`: crossing points, plans of capacity.

No stage of the app imports this package, so it is not deployed. It imports `shared` only, makes no request and reads no
clock.
"""
