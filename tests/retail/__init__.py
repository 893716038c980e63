"""Twenty pipelines over the tables of a retailer, in the manner of TPC-DS, and rows for which each has an answer."""
