"""What each resource does, one module per kind of resource."""
