"""What other people's tools read, write and call; none of them is imported before it is used."""
