"""What a foreign implementation is written from, made from the code: JSON Schemas, tables, test vectors."""
