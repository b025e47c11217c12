"""The command `sparkbleach`, from outside."""
