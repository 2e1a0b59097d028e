"""The bench of methods: every method and training seed at equal samples and at equal seconds."""
