"""An API as Amazon SQS has it, for clients that exist. Source: the service's API reference."""
