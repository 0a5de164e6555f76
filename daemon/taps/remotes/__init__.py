"""Remotes: daemons of other machines whose events this one has, too. `settings.py` says which, `sending.py` runs there,
`reading.py` commits what comes from there, and `remotes.py` keeps the connections."""
