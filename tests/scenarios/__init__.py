"""What the scripted scenarios of the recordings mean, and whether the events say it."""
