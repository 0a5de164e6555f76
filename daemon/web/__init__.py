"""The HTTP gateway and its page: optional, `tooltap[web]`. Nothing here is imported unless it is asked for."""
