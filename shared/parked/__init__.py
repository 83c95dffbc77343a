"""Messages that failed for good: kept with their reason and their bytes until a person replays or discards them.

Reading order: entry (the words), policy (when a message is poison), parking (the stages, and the way in), parked_table
(the store), door (what is not believed), grouping and replay (doing it again), operator, drain (the poison queues).
"""
