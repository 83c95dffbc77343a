"""The verb of warming: the check that a due pointer leads to."""

from functools import partial

from shared.app import BuildSite
from shared.pending import Pointer
from shared.scaling import WarmChoice, build_warmer, connect_manager, records_of


class Warming:
    """Warms instances before planned openings, by an identity that is loaded for this alone."""

    def __init__(self, site: BuildSite[WarmChoice]) -> None:
        """Build it. Makes no request."""
        choice = site.choice
        manager = partial(connect_manager, choice.endpoint, client_id=choice.identity, retries=0)
        warmer = build_warmer(site.stores, choice, site.settings.chunk_overdue, manager)
        # Without an identity of its own, the app only reports that the checks are late.
        self._follow = warmer.follow if choice.identity else records_of(site.stores).demand_check

    def follow(self, pointer: Pointer) -> None:
        """Do the check, or raise ScalingRefusedError: none was done for too long."""
        self._follow(pointer)
