"""Jobs that wait for their turn: which of them goes next, in fair shares of the rooms."""
