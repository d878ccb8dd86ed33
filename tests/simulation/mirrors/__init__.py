"""Whole mirrors by schedules: what may happen to them (schedule), what must hold (promises), wrong decisions that have to
be found (mutations), and how one schedule runs (run)."""
