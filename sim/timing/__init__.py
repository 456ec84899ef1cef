"""WHEN things happen: models that predict cycles, written from the documented pipelines."""
