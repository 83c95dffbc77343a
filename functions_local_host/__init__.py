"""A stand-in for the Azure Functions host: it runs this app, unmodified, as the real host would."""
