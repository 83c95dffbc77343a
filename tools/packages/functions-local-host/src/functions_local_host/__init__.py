"""A stand-in for the Azure Functions host: it runs an unmodified app in Python as the real host does."""
