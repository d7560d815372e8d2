"""The admin service of the analyst's organisation: its people, their questions, and who let what be published."""
