"""The triggers: one file per trigger, named after the function that it registers. Decode, make one call, settle."""
