"""The endpoints for programs: JSON, server-sent events, output bodies, metrics. They know no card or page."""
