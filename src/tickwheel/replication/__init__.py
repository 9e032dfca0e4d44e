"""A replicated log whose requests wait in purgatories, and a broker for it that Kafka's clients talk to."""
