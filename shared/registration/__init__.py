"""The worked example: orders for the seats of a conference."""
