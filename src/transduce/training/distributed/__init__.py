"""Training with several processes.

processes   joining the processes that torchrun starts, and what they agree on
heartbeat   noticing that a process hangs
"""
