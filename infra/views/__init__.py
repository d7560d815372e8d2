"""What commands show to people: tables, pictures, pages."""
