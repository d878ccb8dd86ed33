"""Positions of groups in files: every form that tools write is read, and three of them are written."""
