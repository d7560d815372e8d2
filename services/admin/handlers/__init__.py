"""The handlers of the API, one module per kind of resource."""
