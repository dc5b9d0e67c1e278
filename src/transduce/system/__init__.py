"""Operating-system services: files, locks, signals, devices. Imports torch only when needed.

files        atomic writes, JSON with checksums, safe reading
locks        lock files: one process per folder
streams      standard streams that are closed at the start, or whose terminal closes later
signals      Ctrl-C, SIGTERM and SIGHUP
processes    CPU cores and torchrun's environment variables
devices      choosing a device, and torch's global flags
formatting   formatting numbers and durations
progress     progress bars and log lines on stderr
"""
