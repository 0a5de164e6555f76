"""Commands that send lines to the daemon: run, proxy, attach, gateway, ingest, mcp. Knows `common`."""
