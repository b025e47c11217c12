"""What a user writes, checked: rules, files of rules, conditions, updates."""
