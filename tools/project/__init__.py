"""A person's project: the files of a release in it, how a new one is made of them, and how it comes to another release."""
