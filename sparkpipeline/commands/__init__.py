"""The command sparkpipeline."""
