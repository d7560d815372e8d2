"""What every method is made of: draws, estimates, statistics, and what a method must say of itself."""
