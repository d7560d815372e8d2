"""Test vectors for other implementations, made from one published seed."""
