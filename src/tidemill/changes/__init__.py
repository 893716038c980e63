"""What changed: rows with integer weights, and the forms in which they travel."""
