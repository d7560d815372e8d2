"""Documents of the admin and operator APIs, and the OpenAPI documents that describe them."""
