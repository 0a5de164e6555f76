"""Who is at the other end of a connection, how many connections each of them may have, and what they may send."""
