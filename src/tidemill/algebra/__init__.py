"""What a view means: expressions, relations, their functions and aggregates, and the evaluator that defines them."""
