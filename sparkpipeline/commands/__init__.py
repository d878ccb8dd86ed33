"""Command line of sparkpipeline."""
