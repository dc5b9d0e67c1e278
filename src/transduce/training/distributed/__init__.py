"""Training with several processes.

processes   joining the processes that torchrun starts; operations on all of them
heartbeat   detecting a process that hangs
"""
