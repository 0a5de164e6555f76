"""Scripted scenarios of the recordings: what they mean, and checks that the events state it."""
