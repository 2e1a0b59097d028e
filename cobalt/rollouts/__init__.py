"""Sampling programs: one turn, or many turns with execution feedback between them."""
