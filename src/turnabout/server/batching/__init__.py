"""Many clients, few transactions: merged verbs, long polls, bounded answers, maintenance."""
