"""The command mirrormaker."""
