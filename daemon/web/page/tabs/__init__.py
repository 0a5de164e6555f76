"""The tabs of a session: files, usage, plan and details; as pages, and as parts of the session's page."""
