"""Keeping a journal whole: checking a file, repairing it, copying it while a daemon writes to it."""
