"""How random lives are played: by Hypothesis, so many of them, from a seed."""

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SHRINKING_SECONDS = 60
"""So long a life that failed is made shorter; what is left is told."""


def play(
    life: type[RuleBasedStateMachine],
    examples: int,
    steps: int,
    *,
    shrink: bool = True,
    start: int | None,
) -> None:
    """The same lives for the same `start`; None: other ones each time."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "MAX_SHRINKING_SECONDS", SHRINKING_SECONDS)
        run_state_machine_as_test(life if start is None else seed(start)(life), settings=chosen)
