"""The daemon as a service of the system."""
