"""Migrations carried out: groups looked at, copied, verified, cut over, taken back.  zkconsumer.migration decides."""
