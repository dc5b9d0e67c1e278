"""The paper's experiments: its tables, its figures and the claims of its text, measured here.

Each yields a `Finding`: tables with the paper's numbers beside ours, pictures, and notes on what
was scaled down.
"""
