"""Works on tagged files: a module for each tool."""
