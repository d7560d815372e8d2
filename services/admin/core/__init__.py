"""What the service knows and does, below its HTTP resources and pages."""
