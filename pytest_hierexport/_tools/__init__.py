"""What people do with a tagged file: one module for each tool."""
