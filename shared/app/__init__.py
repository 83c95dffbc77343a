"""Builds an installation's stores and a process's stages from connections and settings; knows every adapter."""

from shared.app.app import App
from shared.app.stages import Stages
from shared.app.stores import Stores

__all__ = ["App", "Stages", "Stores"]
