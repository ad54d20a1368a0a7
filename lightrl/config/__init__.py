"""From YAML files and the words of a command to objects: the same way for every verb.

1. `settings` and `yaml_files` read files and words into settings, in the order in which they were given.
2. `resolve` lays them over each other (`merge`) into a tree of choices for model and data, each a class with arguments (`choice`),
   and into words for the Trainer. On the way `class_lookup` finds classes by their names, `signatures`, `annotations` and `slots` read
   the arguments of a class and their types, and `plain_values`, `trainer_keys`, `trainer_ranges`, `trainer_classes`, `run_length` and
   `missing` refuse values with their key and source (`errors`); `unusual` notes those that are only absurd.
3. `building` makes the objects and remembers the key of each for later errors (`error_key`); `trainer_section` builds the Trainer.
4. `run` holds all of them and carries out the verb; `config_yaml` writes the whole config, `class_help` and `verb_help` explain it.

`checkpoint_path`, `resumed_folder` and `trained_policy` are about runs that go on and about what they have trained; `algorithm_choice`,
`algorithm_table`, `class_description` and `docstrings` describe classes for the catalogue.
"""
