"""How waveforms become examples: each module usable alone, in anyone's Beam pipeline.

Nothing heavy is imported here; import the module that is needed.
"""
