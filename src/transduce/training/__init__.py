"""Training a model: settings, trainer, gradient step, schedule, validation."""
