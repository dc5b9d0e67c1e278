"""Attention that the paper compares with its own: additive and restricted."""
