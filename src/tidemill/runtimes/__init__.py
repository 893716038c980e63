"""What runs a program: in this process, or on Spark."""
