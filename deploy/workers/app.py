"""A worker to begin with: it prints what comes to the queue `emails`."""

import os

from turnabout.worker import Message, Worker

worker = Worker(os.environ["TURNABOUT_URL"])


@worker.handler("emails", concurrency=10)
def send_email(message: Message) -> None:
    """Handle one message; what a handler raises fails it, and it comes back."""
    print("email to", message.json()["to"], flush=True)
