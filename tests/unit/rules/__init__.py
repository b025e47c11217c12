"""What a user writes."""
