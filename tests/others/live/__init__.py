"""The tests that come with azure-servicebus, run against the broker."""
