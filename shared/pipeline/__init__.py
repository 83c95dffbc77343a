"""The way of a transaction: accept, dispatch, process, settle, finish; one module a stage, in that order."""
