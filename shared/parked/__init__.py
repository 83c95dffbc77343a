"""What failed for good: kept with its reason and its bytes until a person replays or discards it.

Reading order: entry (the words), parked_table (the store), grouping and waves (what to replay, pure), replay and
operator (doing it), drain (what the host and the bus gave up on).
"""
