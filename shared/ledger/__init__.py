"""Jobs and their chunks: what is in flight, what is done, and the proof that nothing was lost or counted twice."""
