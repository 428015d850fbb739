"""What runs: the verbs, the plan, the wiring, and the commit.

Nothing heavy is imported here; import the module that is needed.
"""
