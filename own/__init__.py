"""Your own code. An upgrade of Sluice never touches this folder: README.md beside this file says what is in it."""
