"""What lineage saves: the plans of MOVIE, and which events of a view read base data."""
