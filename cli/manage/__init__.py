"""Commands for the installation: serve, service, config, doctor, completion, demo. Knows `common`."""
