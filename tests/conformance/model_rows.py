"""The model's rows: an unfinished message, an ended one, and a queue. Plain, mutable, slow."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from turnabout import AttemptError, Note, Origin, Policy, QueueSettings
from turnabout.words.records import Result


@dataclass
class Message:
    """An unfinished message. `at`: when it is due, or when its lease runs out."""

    id: int
    channel: str
    priority: int
    payload: bytes
    sent_at: int
    status: str
    at: int
    attempt: int = 0
    leased_at: int | None = None
    delivered_before: int = 0
    """Attempts before it came into the queue, or was retried."""
    failures: int = 0
    crashes: int = 0
    state: bytes | None = None
    errors: tuple[AttemptError, ...] = ()
    last_error: str | None = None
    origin: Origin | None = None
    expires_at: int | None = None
    cancel_requested: bool = False
    note: Note | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.priority, self.id

    def has_passed(self, now: int) -> bool:
        """Whether it waits, and its time to live is over: any receive may end it."""
        return self.status != "leased" and self.expires_at is not None and self.expires_at <= now


@dataclass
class Row:
    """A row of history. `finished_at` None: the store ended it when it liked."""

    id: int
    channel: str
    outcome: str
    finished_at: int | None
    attempt: int
    failures: int
    crashes: int
    error: str | None
    result: Result | None = None
    note: Note | None = None


@dataclass(frozen=True)
class Told:
    """An event. The store may choose when it notices something, not what it then tells."""

    id: int
    kind: str
    channel: str
    attempt: int
    due_at: int | None
    note: Note | None


@dataclass
class Queue:
    name: str
    settings: QueueSettings
    grave: str | None
    messages: dict[int, Message] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    tat: dict[str, int] = field(default_factory=dict)
    """Per channel, the theoretical arrival time of its token bucket, in microseconds."""
    own_tat: int = 0
    """The same of the queue's own rate."""
    passed_over: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Per channel with something to give, what others were given since it had its turn."""
    entries: dict[tuple[str, str], tuple[int, int | None]] = field(default_factory=dict)
    """Per (scope, dedup key): the message it stands for, and until when, if time decides."""
    history: list[Row] = field(default_factory=list)
    events: list[Told] = field(default_factory=list)
    last_id: int = 0
    sent: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0

    def policy(self, channel: str) -> Policy:
        return self.policies.get(channel, Policy()).over(self.settings.policy)

    def of(self, channel: str) -> list[Message]:
        mine = [m for m in self.messages.values() if m.channel == channel]
        return sorted(mine, key=lambda m: m.place)

    def exhausted(self, m: Message, charged: int) -> str | None:
        """Why a message that was charged so often does not come back."""
        attempts, deliveries = self.settings.max_attempts, self.settings.max_deliveries
        if attempts is not None and charged >= attempts:
            return "attempts"
        worn = deliveries is not None and m.attempt - m.delivered_before >= deliveries
        return "deliveries" if worn else None

    def tell(self, kind: str, m: Message, due_at: int | None = None) -> None:
        """An event of it, if the queue wants all."""
        if self.settings.events == "all":
            self.events.append(Told(m.id, kind, m.channel, m.attempt, due_at, m.note))

    def keeps(self, outcome: str) -> bool:
        """Whether an ending so leaves a row."""
        seconds = self.settings.history_seconds
        failed = self.settings.history_failed_seconds
        if outcome != "done" and failed is not None:
            seconds = failed
        return seconds > 0
