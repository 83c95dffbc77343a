"""Checks of everything that is deployed, on any machine: Bicep, azure.yaml, the package. `python -m local.infra` runs them.

Bicep is read by its grammar and worked out by a small evaluator of our own (`deployment`), so that what the checks look
at is what would be deployed, loops and parameters included, and not how it happens to be written.
"""
