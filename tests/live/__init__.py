"""Real agents, run beside a real daemon with a scripted model on loopback: no keys, no network (`make live`)."""
