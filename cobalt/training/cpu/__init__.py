"""verl on CPU: platform, engine, rollout and batch path, all of them registered plug-ins."""
