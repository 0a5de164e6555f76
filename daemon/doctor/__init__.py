"""What there is of tooltap on this machine and around it, and what is wrong with it: one sentence each, with advice.

`examination.examine` looks at everything, wherever it can: what is broken hides nothing else. It changes nothing, and
starts nothing but `--version` of agents and questions to systemd.
"""
