"""What the scripted scenarios behind the recordings mean, and whether the events say it."""
