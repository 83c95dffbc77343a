"""Taking work off the queues: a listener that follows their depth, and permits that start it where there is work."""
