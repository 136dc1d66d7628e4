"""A user's program with mistakes. Each line with one says so, and checkers find them all."""

from turnabout.tasks import Tasks
from turnabout.worker import Message, Worker

tasks = Tasks("sqlite:///app.db")
worker = Worker("sqlite:///app.db")


@tasks.task(queue="emails")
def send(to: str, copies: int = 1) -> int:
    return len(to) * copies


send.enqueue(1)  # wrong: an int for a str
send.enqueue()  # wrong: `to` is missing
send.enqueue("a", colour="red")  # wrong: there is no such argument
text: str = send.enqueue("a").result()  # wrong: it is an int
send.within(None).enqueue("a", "b")  # wrong: a str for an int


@worker.handler("emails")  # wrong: a handler takes a message, and at most a connection
def handle(message: Message, connection: object, more: int) -> None: ...
