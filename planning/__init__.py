"""What-if arithmetic for `sluice tune` and `sluice cost`: simulations, crossing points, plans of capacity; all pure.

No stage of the app imports it, so it is not deployed. It imports `shared` only, and reads neither storage nor a clock.
"""
