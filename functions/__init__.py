"""When work happens: one file a trigger, named as the function it registers. Decode, one call into `shared`, settle."""
