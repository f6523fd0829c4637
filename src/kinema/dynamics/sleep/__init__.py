"""Sleep: islands at rest are skipped by the simulation step until their state, inputs or contacts change."""
