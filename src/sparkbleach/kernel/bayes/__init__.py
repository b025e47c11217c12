"""The state and the search of `repair: bayes`: the most probable reading of a tuple."""
