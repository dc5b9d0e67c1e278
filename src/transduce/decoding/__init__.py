"""Beam search and sampling, and the scheduler that keeps the device busy."""
