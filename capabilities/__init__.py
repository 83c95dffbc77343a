"""The capabilities that come with Sluice: one folder each. Nothing imports one but by the line SLUICE_CAPABILITIES."""
