"""People and their roles, how they sign in, and the consent that changes of them need."""
