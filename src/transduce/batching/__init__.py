"""Batches of packed tokens, and the thread that prepares them while the device works."""
