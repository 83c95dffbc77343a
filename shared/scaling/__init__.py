"""Pre-warming: instances that are there before a gate opens, which no tuning inside the app can bring about.

Reading order: `plan` (how many of which function, and their price), `words` (the same for the Azure CLI and for Bicep),
`resource_manager` (sends it, for who asks for that).
"""
