"""The `sluice` command: what a publisher and an operator type. Imports `shared`, never `functions` or `local`."""
