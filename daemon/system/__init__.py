"""The machine: paths, sockets, processes, signals, logs, clocks. Knows nothing of streams and events."""
