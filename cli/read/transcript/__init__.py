"""A session as text for a terminal, made of its events one by one. It prints nothing itself."""
