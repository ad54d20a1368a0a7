"""From the words of a command and YAML files to objects."""
