"""Checks of everything that is deployed, on any machine: Bicep, azure.yaml, the package. `python -m tools.local.infra` runs them.

Bicep is read by its grammar and evaluated by a small evaluator of our own (`deployment`). So the checks read the
resources that would be deployed, loops and parameters included, and not the way in which they are written.
"""
