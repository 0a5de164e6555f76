"""`tooltap doctor`: what is installed, configured and running, and what is wrong with it. Knows everything but the web
page.

`examination.examine` checks everything it can; one failed check hides no other. It changes nothing, and starts nothing
except `--version` of agents and queries to systemd.
"""
