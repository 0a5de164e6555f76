"""Events as cards: one event becomes one fragment of HTML. It knows neither HTTP nor the journal nor the page."""
