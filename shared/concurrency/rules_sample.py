"""The built-in rules as an operator would write them, to begin from. docs/rules.sample.yaml is this text."""

from typing import Final

SAMPLE: Final = """\
# Rules that `sluice tune rules put` takes; docs/concurrency.md explains every word. These are the built-in rules, to begin
# from: Mizonov's steps (docs/origins.md), few tasks for little work and many for much. The first rule that applies decides.
version: 1
most: 100
rules:
  - name: little
    when: {depth: {below: 100}}
    tasks: 10
  - name: some
    when: {depth: {at_least: 100, below: 1000}}
    tasks: 50
  - name: much
    when: {depth: {at_least: 1000}}
    tasks: 100
"""
