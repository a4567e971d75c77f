"""Dossiers computed from the ledger, decisions and launch permission."""
