"""The operating system: paths, sockets, processes, signals, logs, clocks. Independent of streams and events."""
