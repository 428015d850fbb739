"""Tables, and records of tf.train.Example."""
