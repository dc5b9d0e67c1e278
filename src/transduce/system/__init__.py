"""Files, locks, signals, processes, devices and progress. Imports torch only when it is needed.

files        atomic writes, JSON with checksums, safe reading
locks        one process per run folder
signals      Ctrl-C, SIGTERM and SIGHUP
processes    CPU cores and torchrun's environment variables
devices      choosing a device, and torch's own global flags
formatting   numbers and durations for people
progress     progress bars and log lines on stderr
"""
