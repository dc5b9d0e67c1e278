"""Files, locks, streams, signals, processes, devices, progress. Imports torch only when needed.

files        atomic writes, JSON with checksums, safe reading
locks        one process per run folder
streams      standard streams that are closed, or whose terminal closes
signals      Ctrl-C, SIGTERM and SIGHUP
processes    CPU cores and torchrun's environment variables
devices      choosing a device, and torch's own global flags
formatting   numbers and durations for people
progress     progress bars and log lines on stderr
"""
