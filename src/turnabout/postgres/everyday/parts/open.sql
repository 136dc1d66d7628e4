-- Any channel, where none has a policy.
true
