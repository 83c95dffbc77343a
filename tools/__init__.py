"""The workshop: the command, its plans, the local stack, and what proves a namespace and an account."""
