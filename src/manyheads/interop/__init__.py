"""Models imported from other libraries, and exported to them."""
