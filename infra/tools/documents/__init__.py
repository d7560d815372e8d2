"""The documents from which a foreign implementation is written, generated from the code: JSON Schemas, tables, test
vectors."""
