"""Which of its two readers sees what of an event, and the user's rules for it. Knows the journal's interface."""
