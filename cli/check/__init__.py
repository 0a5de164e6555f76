"""Commands on recorded lines: normalize, replay, fixtures, baseline, drift. Knows `common`."""
