"""Pages inside the Airflow UI."""
