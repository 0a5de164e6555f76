"""Decides what is shown of events, calls, turns and sessions. It knows neither HTTP nor the page."""
