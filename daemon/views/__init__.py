"""The views of an event for its two readers, the model and the user, and the user's rules for them. Knows the journal's
interface."""
