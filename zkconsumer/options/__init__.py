"""Options of a consumer: names, types, rules between them; and what an operator types on a command line."""
