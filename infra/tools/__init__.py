"""Tools around the product: documents, images, staging, interoperation."""
