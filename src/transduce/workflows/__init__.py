"""Jobs made of several runs: following a recipe, distillation."""
