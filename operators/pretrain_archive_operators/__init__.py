"""Airflow operators of pretrain-archive: thin, each calls one service."""
