"""The driver of elastic jobs: who is a member when, and who is started where."""
