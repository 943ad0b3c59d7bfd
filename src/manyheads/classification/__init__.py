"""Which of several labels a text has."""
