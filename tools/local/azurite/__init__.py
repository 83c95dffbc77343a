"""Azurite, started and stopped for one stack."""
