"""Public-key cryptography of many messages at once, in C over AVX-512 with IFMA, with OpenSSL behind it."""
