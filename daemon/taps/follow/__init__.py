"""Follows the session files of agents, inside the daemon."""
